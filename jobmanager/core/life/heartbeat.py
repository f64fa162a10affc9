"""What a heartbeat comes to: a pure function of the attempt that its runner has.

The heartbeats of all runners are written down together, without a lock, as long as they only
tell of progress. This function says which do, for one heartbeat as for many.
"""

from enum import StrEnum

from jobmanager.core.ids import AttemptNumber
from jobmanager.core.life.attempt import Attempt, AttemptStatus


class Heard(StrEnum):
    SUPERSEDED = "superseded"
    """The attempt was replaced, or will be: not even the time of the heartbeat is noted."""
    ALIVE = "alive"
    """The runner lives, and what it tells is of an attempt that has ended."""
    PROGRESS = "progress"
    STARTED = "started"
    """Progress, though the runner's report that its queries run was lost. Regions have progress
    only once their queries have started."""

    @property
    def has_news(self) -> bool:
        return self in (Heard.PROGRESS, Heard.STARTED)


def hear(attempt: Attempt, spoken_of: AttemptNumber | None, *, has_progress: bool) -> Heard:
    """`attempt` is the one that the runner was last given, `spoken_of` what it tells of."""
    if attempt.is_superseded:
        return Heard.SUPERSEDED
    if spoken_of != attempt.number or attempt.status.is_terminal:
        return Heard.ALIVE
    if attempt.status is AttemptStatus.STARTING and has_progress:
        return Heard.STARTED
    return Heard.PROGRESS
