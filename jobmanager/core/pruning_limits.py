"""What is kept of the past of jobs, and for how long."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class PruningLimits:
    """What is kept, as the settings of the same names say."""

    checkpoint_rows: int
    history: timedelta
    attempts: int
    ended_jobs: timedelta
    most_ended_jobs: int
    ended_checkpoints: timedelta | None = None
