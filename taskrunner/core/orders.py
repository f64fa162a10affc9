"""What a running attempt can be told, by the JobManager, a signal or its own threads."""

from dataclasses import dataclass
from datetime import timedelta

from jobmanager.protocol.messages import Stop


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """End after the batch under way, or when `grace` is over in the middle of it."""

    grace: timedelta
    why: str


@dataclass(frozen=True, slots=True)
class StopAsked:
    """End at a boundary with a savepoint."""

    stop: Stop


@dataclass(frozen=True, slots=True)
class StopSettled:
    """The savepoint of a stop was acked and accepted, or could not be had."""

    fault: str | None
    """None: it was accepted."""


@dataclass(frozen=True, slots=True)
class Replaced:
    """A newer attempt has taken over: stop at once, publish nothing, say nothing."""

    why: str


@dataclass(frozen=True, slots=True)
class Dismissed:
    """The JobManager does not know this runner (any more), or has no more work for it."""

    why: str


Order = CancelAsked | StopAsked | StopSettled | Replaced | Dismissed
