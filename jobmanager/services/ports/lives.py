"""Lives of jobs in the database: loaded whole, under the job's lock, and saved by what changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId
from jobmanager.core.life.life import Life


@dataclass(frozen=True, slots=True)
class SpokenOf:
    """What an event refers to, in addition to what is under way; it is loaded, too, if it
    exists.
    """

    attempt: AttemptNumber | None = None
    checkpoint: CheckpointNumber | None = None


@dataclass(frozen=True, slots=True)
class LifeChange:
    before: Life | None
    """None: the job was just added."""
    after: Life
    at: datetime


class Lives(Protocol):
    """Loads and saves lives. A loaded life is locked until the transaction ends."""

    async def load(self, job_id: JobId, spoken_of: SpokenOf) -> Life:
        """Load a life; wait while another transaction has the job locked. Raises `JobNotFound`."""

    async def load_free(self, wanted: Mapping[JobId, SpokenOf]) -> Mapping[JobId, Life]:
        """Load those of the wanted jobs that no other transaction has locked."""

    async def load_due(self, now: datetime, limit: int) -> Sequence[Life]:
        """Load the jobs whose periodic checkpoint may be due, except jobs that are locked."""

    async def save(self, changes: Sequence[LifeChange]) -> None:
        """Write what changed, with a few statements for all lives."""
