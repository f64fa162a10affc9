"""Lives of jobs in the database: loaded whole, under the job's lock, and saved by what changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from jobmanager.core.ids import AttemptNumber, CheckpointNumber, JobId
from jobmanager.core.life.life import Life


@dataclass(frozen=True, slots=True)
class SpokenOf:
    """What an event is about beside what is under way: that is loaded too, if it is there."""

    attempt: AttemptNumber | None = None
    checkpoint: CheckpointNumber | None = None


@dataclass(frozen=True, slots=True)
class LifeChange:
    before: Life | None
    """None: the job was just added."""
    after: Life
    at: datetime


class Lives(Protocol):
    """A life that was loaded is locked until the transaction ends."""

    async def load(self, job_id: JobId, spoken_of: SpokenOf) -> Life:
        """Waits for whoever holds the job. Raises `JobNotFound`."""

    async def load_free(self, wanted: Mapping[JobId, SpokenOf]) -> Mapping[JobId, Life]:
        """Of these jobs, all that nobody else holds just now."""

    async def load_due(self, now: datetime, limit: int) -> Sequence[Life]:
        """The jobs whose periodic checkpoint may be due, and which nobody else holds just now."""

    async def save(self, changes: Sequence[LifeChange]) -> None:
        """Writes what differs, in a few statements for all of them."""
