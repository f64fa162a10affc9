"""What a runner did not do in time: heartbeats, and the start of its attempt.

Silence counts from the last heartbeat, and from when the leader began to listen: what an earlier
leader did not hear says nothing. A heartbeat from far in the future was written by a clock that was
wrong, and says nothing either.

An attempt that starts has to begin to run. Restoring a large state can take hours, so there is no
limit to the whole; but a runner whose processes have neither read nor written data for long does
not restore anything, although its heartbeats come: it waits for a cluster that is full, or hangs.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from jobmanager.core.life.attempt import Attempt, AttemptStatus, RunnerWentSilent, StartTimedOut

_STARTING = (AttemptStatus.LAUNCHING, AttemptStatus.STARTING)


@dataclass(frozen=True, slots=True)
class RunnerLimits:
    heartbeat: timedelta
    """Between two heartbeats."""
    registration: timedelta
    """From the launch to the first heartbeat."""
    idle_start: timedelta
    """Without reading or writing data, while the attempt starts."""


@dataclass(frozen=True, slots=True)
class RunnerTimes:
    """What was heard of a runner."""

    launched_at: datetime
    heartbeat_at: datetime | None
    moved_at: datetime | None
    """When its processes were last known to have read or written data while the attempt starts."""
    listening_since: datetime


def overdue(
    attempt: Attempt, heard: RunnerTimes, limits: RunnerLimits, now: datetime
) -> RunnerWentSilent | StartTimedOut | None:
    """What did not happen in time; None: nothing is overdue."""
    last, limit = heard.launched_at, limits.registration
    if heard.heartbeat_at is not None:
        last, limit = heard.heartbeat_at, limits.heartbeat
    silence = now - _latest([last], heard, limits, now)
    if silence > limit:
        return RunnerWentSilent(now, silence)
    if attempt.status in _STARTING and heard.heartbeat_at is not None:
        moved = [heard.moved_at] if heard.moved_at is not None else []
        idle = now - _latest([attempt.launched_at, *moved], heard, limits, now)
        if idle > limits.idle_start:
            return StartTimedOut(now, idle)
    return None


def _latest(
    moments: list[datetime], heard: RunnerTimes, limits: RunnerLimits, now: datetime
) -> datetime:
    """`now` may be a little older than what was read after it."""
    return max([one for one in moments if one <= now + limits.heartbeat] + [heard.listening_since])
