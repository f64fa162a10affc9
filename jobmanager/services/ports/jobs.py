"""Jobs, their attempts and their key groups, in the database."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.ids import (
    AttemptNumber,
    CheckpointNumber,
    JobId,
)
from jobmanager.core.life.job import JobStatus
from jobmanager.core.life.records import StoredAttempt, StoredJob
from jobmanager.core.progress import RegionProgress


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A running job, with what is needed to judge its health."""

    stored: StoredJob
    attempt: StoredAttempt
    heartbeat_at: datetime | None
    checkpointed_at: datetime | None
    """When the newest checkpoint or savepoint completed."""


@dataclass(frozen=True, slots=True)
class NotedProgress:
    job_id: JobId
    attempt: AttemptNumber
    regions: Sequence[RegionProgress]


@dataclass(frozen=True, slots=True)
class WritingJob:
    """A job that has not ended, and may write to its sinks."""

    id: JobId
    graph: JobGraph
    data_root: str | None
    """Of the server that accepted the job; None: of a version that did not note it."""


class Jobs(Protocol):
    async def add(
        self, job: StoredJob, idempotency_key: str | None, data_root: str | None = None
    ) -> None: ...
    async def lock_outputs(self) -> None:
        """Keeps out whoever else does so until the transaction ends: of two jobs that want the
        same output at the same time, the second sees the first.
        """

    async def writing(self) -> Sequence[WritingJob]:
        """All jobs that have not ended, whichever server accepted them."""
        ...

    async def get(self, job_id: JobId) -> StoredJob: ...
    async def get_for_update(self, job_id: JobId) -> StoredJob: ...
    async def with_idempotency_key(self, key: str) -> StoredJob | None: ...
    async def all(self) -> Sequence[StoredJob]: ...
    async def listed(self, ended: int) -> Sequence[StoredJob]:
        """Return all live jobs and the last `ended` that have ended, in the order of submission."""

    async def counts(self) -> Mapping[JobStatus, int]: ...
    async def live(self) -> Sequence[JobId]: ...
    async def restart_due(self, now: datetime) -> Sequence[JobId]: ...
    async def running(self, only: JobId | None = None) -> Sequence[RunningJob]: ...
    async def pinned(self, job_id: JobId) -> frozenset[CheckpointNumber]: ...
    async def started_from(self, directory: str) -> Sequence[JobId]:
        """The live jobs that were started from the savepoint there, and still need it."""
        ...

    async def started_from_checkpoint(
        self, job_id: JobId, checkpoint: CheckpointNumber
    ) -> Sequence[JobId]:
        """The live jobs that were started from this checkpoint of a job, and still need it."""
        ...


class Attempts(Protocol):
    async def get(self, job_id: JobId, number: AttemptNumber) -> StoredAttempt: ...
    async def of_job(self, job_id: JobId) -> Sequence[StoredAttempt]: ...
    async def newest_of(self, jobs: Sequence[JobId]) -> Sequence[StoredAttempt]: ...
    async def grace_ended(self, now: datetime) -> Sequence[tuple[JobId, AttemptNumber]]: ...
    async def note_progress_of(self, progress: Sequence[NotedProgress], at: datetime) -> None:
        """Record progress of all attempts whose rows are not locked."""

    async def token_hashes(
        self, attempts: Sequence[tuple[JobId, AttemptNumber]]
    ) -> Mapping[tuple[JobId, AttemptNumber], str]:
        """Of those that have a token."""
        ...

    async def note_tokens(self, hashes: Mapping[tuple[JobId, AttemptNumber], str]) -> None:
        """The runners of these attempts are told to run them, with these tokens."""


class KeyGroups(Protocol):
    async def of_job(self, job_id: JobId) -> Mapping[tuple[str, int], Sequence[int]]: ...
