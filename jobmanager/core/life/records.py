"""Records of a job beside the states of its machines, as use cases load and save them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.ids import (
    FIRST_ATTEMPT,
    AttemptNumber,
    CheckpointNumber,
    JobId,
    OperationId,
    SavepointId,
)
from jobmanager.core.life.attempt import Attempt
from jobmanager.core.life.change import Change
from jobmanager.core.life.checkpoint import Checkpoint
from jobmanager.core.life.health import Health, shown_state
from jobmanager.core.life.job import Job
from jobmanager.core.life.operation import Operation
from jobmanager.core.life.savepoint import SavepointStatus
from jobmanager.core.progress import RegionProgress, RestoredRegion


@dataclass(frozen=True, slots=True)
class RestorePoint:
    """What a job is started from: a savepoint, or a checkpoint of another job."""

    root: str
    """The URI that locations in the manifest are relative to."""
    manifest: str
    name: str
    job: str
    """The job that wrote it, 32 hexadecimal digits."""
    checkpoint: int | None = None
    """The number, if it is a checkpoint, which is kept as long as it is needed."""
    savepoint: str | None = None
    allow_non_restored_state: bool = False
    claim: bool = False
    """Whether the job owns it; then it is deleted when the job has a checkpoint."""


@dataclass(frozen=True, slots=True)
class Savepoint:
    id: SavepointId
    job_id: JobId | None
    """None: the savepoint was adopted, and no job wrote it."""
    checkpoint: CheckpointNumber
    directory: str
    status: SavepointStatus
    created_at: datetime
    parallelism: int
    max_parallelism: int
    graph_revision: int
    parent: str | None = None
    completed_at: datetime | None = None
    disposed_at: datetime | None = None
    failure: str | None = None
    bytes: int | None = None
    regions: Mapping[str, Any] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    drained: bool = False
    """The watermark is at the end of time: every event that came after it would be late."""


@dataclass(frozen=True, slots=True)
class StoredOperation:
    id: OperationId
    job_id: JobId
    savepoint_id: SavepointId | None
    """None: the job runs on, and no savepoint was needed."""
    operation: Operation
    created_at: datetime
    change: Change | None = None
    """What a rescale or an upgrade changes."""


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A job with what was submitted and what is stored about it."""

    id: JobId
    job: Job
    document: Mapping[str, Any]
    graph: JobGraph
    revision: int
    parallelism: int
    submitted_at: datetime
    ended_at: datetime | None
    status_times: Mapping[str, int]
    next_checkpoint: CheckpointNumber
    next_checkpoint_at: datetime | None
    failed_checkpoints: int
    restore_point: RestorePoint | None = None
    """What the job was started from, or last rescaled or upgraded from."""
    base_attempt: AttemptNumber = FIRST_ATTEMPT
    """The base attempt: state of earlier attempts is not used for a restore."""
    health: Health = Health.HEALTHY
    """Always healthy unless the job is running."""
    health_reason: str | None = None
    health_since: datetime | None = None

    @property
    def state(self) -> str:
        """The state shown to users."""
        return shown_state(self.job.status, self.health)


@dataclass(frozen=True, slots=True)
class StoredAttempt:
    job_id: JobId
    attempt: Attempt
    restored: Sequence[RestoredRegion] | None
    progress: Sequence[RegionProgress] | None
    """One entry for each region, as reported by the runner."""
    progress_at: datetime | None


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    job_id: JobId
    checkpoint: Checkpoint
    acked_at: Mapping[Any, datetime]
    discarded_at: datetime | None


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    at: datetime
    kind: str
    cause: str
    attempt: AttemptNumber | None = None
    checkpoint: CheckpointNumber | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
