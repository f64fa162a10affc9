"""What a heartbeat means: a pure function of the attempt that its runner has.

Heartbeats of all runners are recorded together, without locks, if they only report progress. This
function says which do.
"""

from enum import StrEnum

from jobmanager.core.ids import AttemptNumber
from jobmanager.core.life.attempt import Attempt, AttemptStatus


class Heard(StrEnum):
    SUPERSEDED = "superseded"
    """The attempt was or will be replaced: not even the time of the heartbeat is recorded."""
    ALIVE = "alive"
    """The runner is alive, but reports about an attempt that has ended."""
    PROGRESS = "progress"
    STARTED = "started"
    """Progress, although the runner's report that its queries run was lost: regions have progress
    only after their queries have started.
    """

    @property
    def has_news(self) -> bool:
        return self in (Heard.PROGRESS, Heard.STARTED)


def hear(attempt: Attempt, spoken_of: AttemptNumber | None, *, has_progress: bool) -> Heard:
    """Classify a heartbeat. `attempt` is the attempt that the runner was last given, `spoken_of`
    the attempt that the heartbeat is about.
    """
    if attempt.is_superseded:
        return Heard.SUPERSEDED
    if spoken_of != attempt.number or attempt.status.is_terminal:
        return Heard.ALIVE
    if attempt.status is AttemptStatus.STARTING and has_progress:
        return Heard.STARTED
    return Heard.PROGRESS
