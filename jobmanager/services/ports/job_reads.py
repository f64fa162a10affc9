"""What the routes that are asked most often read: as few questions and columns as they need."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.ids import CheckpointNumber, JobId
from jobmanager.core.life.attempt import AttemptStatus
from jobmanager.core.life.checkpoint import AbortReason, CheckpointKind, CheckpointStatus
from jobmanager.core.life.job import JobStatus
from jobmanager.core.life.records import StoredAttempt, StoredJob


@dataclass(frozen=True, slots=True)
class JobAndAttempt:
    """A job and its newest attempt."""

    stored: StoredJob
    attempt: StoredAttempt


@dataclass(frozen=True, slots=True)
class RunnerPlace:
    id: str
    host: str
    pid: int | None
    process: UUID
    """The process that serves it."""
    is_shared: bool
    """Whether the process serves runners of other jobs at the same time."""


@dataclass(frozen=True, slots=True)
class NewestCheckpoint:
    """The newest completed checkpoint that is not a savepoint and was not discarded."""

    number: CheckpointNumber
    triggered_at: datetime
    ended_at: datetime
    bytes: int


@dataclass(frozen=True, slots=True)
class JobNow:
    """What the status of a job tells."""

    stored: StoredJob
    attempt: StoredAttempt
    runner: RunnerPlace | None
    checkpoint: NewestCheckpoint | None


@dataclass(frozen=True, slots=True)
class ListedJob:
    """What a list tells of a job."""

    id: JobId
    graph: JobGraph
    parallelism: int
    status: JobStatus
    attempt: int
    state: str
    """As shown to users."""
    since: datetime
    submitted_at: datetime
    ended_at: datetime | None
    attempt_status: AttemptStatus


@dataclass(frozen=True, slots=True)
class ListedState:
    id: JobId
    status: JobStatus
    attempt: int


@dataclass(frozen=True, slots=True)
class GraphInForce:
    """What the plan of a job is computed from."""

    graph: JobGraph
    parallelism: int


@dataclass(frozen=True, slots=True)
class CountedCheckpoint:
    """A checkpoint without its subtasks, which are only counted."""

    number: CheckpointNumber
    kind: CheckpointKind
    status: CheckpointStatus
    triggered_at: datetime
    ended_at: datetime | None
    aborted_because: AbortReason | None
    detail: str | None
    manifest: str | None
    bytes: int
    new_bytes: int
    discarded_at: datetime | None
    acked: int
    """Subtasks that have acked."""
    awaited: int
    """Subtasks that have not."""
    last_ack_at: datetime | None

    @property
    def is_savepoint(self) -> bool:
        return self.kind is CheckpointKind.SAVEPOINT


@dataclass(frozen=True, slots=True)
class CheckpointsOfJob:
    stored: StoredJob
    counts: Mapping[str, int]
    """Of all checkpoints there were, by status."""
    newest: Sequence[CountedCheckpoint]
    """The newest first."""


class JobReads(Protocol):
    """Raises `JobNotFound` where a job is asked for that is not known."""

    async def with_attempt(self, job_id: JobId) -> JobAndAttempt: ...
    async def now(self, job_id: JobId) -> JobNow: ...
    async def lines(self, ended: int) -> Sequence[ListedJob]:
        """Of all live jobs and the last `ended` that have ended, in the order of submission."""
        ...

    async def states(self, ended: int) -> Sequence[ListedState]:
        """Of the same jobs, in the same order."""
        ...

    async def running(self) -> Mapping[JobId, GraphInForce]: ...
    async def checkpoints(self, job_id: JobId, limit: int) -> CheckpointsOfJob: ...
