"""The outbox: effects that were decided and are not known to have been carried out."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from jobmanager.core.ids import (
    AttemptNumber,
    JobId,
    RunnerId,
)
from jobmanager.core.life.effects import Effect
from jobmanager.core.life.lanes import OutboxLane


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    id: int
    job_id: JobId
    effect: Effect
    tries: int
    is_due: bool = True
    last_error: str | None = None
    """Why it was postponed."""


@dataclass(frozen=True, slots=True)
class Mailbox:
    """The directives that wait for a runner."""

    job_id: JobId
    attempt: AttemptNumber
    token_hash: str
    """Of the runner's secret."""
    protocol: int
    """The version of the protocol that the runner speaks."""
    entries: list[OutboxEntry]


class Outbox(Protocol):
    async def add(
        self, job_id: JobId, effects: Iterable[Effect], at: datetime, *, wakes: bool = True
    ) -> None:
        """Add effects, written when the transaction is committed. With `wakes`, waiting polls are
        woken.
        """

    async def due(
        self, lane: OutboxLane, now: datetime, busy: Set[JobId], limit: int
    ) -> Sequence[OutboxEntry]:
        """The oldest effects that `core.life.lanes.ready` allows to begin."""

    async def unknown(self) -> Mapping[str, int]:
        """Return how many effects there are of each kind that only a newer program knows. They
        are left alone.
        """
        ...

    async def done(self, entries: Sequence[int]) -> None: ...
    async def postpone(
        self, entry_id: int, until: datetime, error: str, *, is_failure: bool = True
    ) -> None:
        """A failure counts as one more try."""

    async def mailboxes(self, runners: Sequence[RunnerId]) -> Mapping[RunnerId, Mailbox]: ...
    async def taken(self, up_to: Mapping[tuple[JobId, AttemptNumber], int]) -> None:
        """Note that the runners of these attempts have taken their directives up to the given
        ones.
        """

    async def forget(self, job_id: JobId, attempt: AttemptNumber) -> None: ...
