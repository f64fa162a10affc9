"""Checkpoints in the database, of a single job and of many jobs at once."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.ids import (
    AttemptNumber,
    CheckpointNumber,
    JobId,
    RunnerId,
)
from jobmanager.core.life.checkpoint import Checkpoint
from jobmanager.core.life.effects import Effect
from jobmanager.core.life.records import StoredCheckpoint


@dataclass(frozen=True, slots=True)
class DueCheckpoint:
    """A plain job whose periodic checkpoint is due, locked."""

    job_id: JobId
    graph: JobGraph
    parallelism: int
    attempt: AttemptNumber
    number: CheckpointNumber


@dataclass(frozen=True, slots=True)
class DueCheckpoints:
    plain: Sequence[DueCheckpoint]
    others: Sequence[JobId]
    """An operation is under way."""


@dataclass(frozen=True, slots=True)
class Triggered:
    job_id: JobId
    checkpoint: Checkpoint
    next_checkpoint_at: datetime
    effects: Sequence[Effect]


@dataclass(frozen=True, slots=True)
class Unacked:
    """A checkpoint in progress without any ack, of a plain job, locked; and the job's runner."""

    job_id: JobId
    graph: JobGraph
    runner: RunnerId
    runner_attempt: AttemptNumber
    token_hash: str
    checkpoint: Checkpoint
    next_checkpoint_at: datetime | None
    restorable: Sequence[CheckpointNumber]
    pinned: Set[CheckpointNumber]
    """Another job starts from these, and has nothing of its own yet."""


@dataclass(frozen=True, slots=True)
class Completed:
    job_id: JobId
    checkpoint: Checkpoint
    at: datetime
    next_checkpoint_at: datetime | None
    discarded: Sequence[CheckpointNumber]
    effects: Sequence[Effect]


class Checkpoints(Protocol):
    async def add(self, job_id: JobId, checkpoint: Checkpoint) -> None: ...
    async def get(self, job_id: JobId, number: CheckpointNumber) -> StoredCheckpoint: ...
    async def in_progress(self, job_id: JobId) -> Sequence[Checkpoint]: ...
    async def save(self, job_id: JobId, checkpoint: Checkpoint, at: datetime) -> None: ...
    async def of_job(self, job_id: JobId, limit: int) -> Sequence[StoredCheckpoint]: ...
    async def counts(self, job_id: JobId) -> Mapping[str, int]: ...
    async def restorable(self, job_id: JobId) -> Sequence[CheckpointNumber]: ...
    async def note_discarded(
        self, job_id: JobId, number: CheckpointNumber, at: datetime
    ) -> None: ...
    async def expired(self, now: datetime) -> Sequence[tuple[JobId, CheckpointNumber]]: ...
    async def prune(self, keep: int, limit: int) -> int:
        """Forgets rows beyond the newest `keep` of a job that nothing needs; how many."""


class BatchedCheckpoints(Protocol):
    """Checkpoints of many jobs at once. A job is plain that nothing else happens to: no operation
    is under way, and nobody else holds its row.
    """

    async def due(self, now: datetime, limit: int) -> DueCheckpoints: ...
    async def trigger(self, triggered: Sequence[Triggered]) -> None: ...
    async def unacked(self, asked: Mapping[JobId, CheckpointNumber]) -> Mapping[JobId, Unacked]: ...
    async def complete(self, completed: Sequence[Completed]) -> None: ...
