"""The history of jobs, and what their runners last reported."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from jobmanager.core.ids import (
    AttemptNumber,
    JobId,
)
from jobmanager.core.life.records import HistoryEntry
from jobmanager.core.progress import RegionProgress


class Actor(StrEnum):
    """Whose message or decision changed the job."""

    CLIENT = "client"
    RUNNER = "runner"
    JOBMANAGER = "jobmanager"


@dataclass(frozen=True, slots=True)
class Recorded:
    """A history entry as stored."""

    id: int
    """Ids of all jobs' entries ascend in the order in which the entries became visible."""
    job_id: JobId
    job_name: str
    job_state: str
    """The job's present state, not its state at the time of the entry."""
    actor: Actor
    actor_name: str | None
    """For a client: the name of its token."""
    entry: HistoryEntry


@dataclass(frozen=True, slots=True)
class LiveProgress:
    """What the runner of a live job last reported."""

    job_id: JobId
    job_name: str
    job_state: str
    attempt: AttemptNumber
    at: datetime
    regions: Sequence[RegionProgress]


@dataclass(frozen=True, slots=True)
class HistoryFilter:
    """Which entries of a job are wanted, and in which order."""

    limit: int
    cursor: int | None = None
    """Only entries after this one, in the order that is wanted."""
    newest_first: bool = False
    kinds: Sequence[str] = ()
    """Empty: all."""
    since: datetime | None = None


class History(Protocol):
    async def add(self, job_id: JobId, *entries: HistoryEntry) -> None: ...
    async def announce(self, job_id: JobId, kind: str, facts: Mapping[str, Any]) -> None:
        """Send a live event to present listeners when the transaction is committed. It is not
        stored.
        """

    async def after(
        self, after: int, limit: int, job_id: JobId | None = None
    ) -> Sequence[Recorded]: ...
    async def of_job(self, job_id: JobId, wanted: HistoryFilter) -> Sequence[Recorded]: ...
    async def newest(self) -> int: ...
    async def progress(self) -> Sequence[LiveProgress]: ...
