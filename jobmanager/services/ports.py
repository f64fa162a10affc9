"""What the use cases need from the outside. Implemented in `store`, `storage` and `launchers`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol, Self

from jobmanager.core.attempt import Attempt
from jobmanager.core.change import Change
from jobmanager.core.checkpoint import Checkpoint
from jobmanager.core.effects import Effect
from jobmanager.core.graph import JobGraph
from jobmanager.core.ids import (
    FIRST_ATTEMPT,
    AttemptNumber,
    CheckpointNumber,
    JobId,
    OperationId,
    RunnerId,
    SavepointId,
)
from jobmanager.core.job import Job
from jobmanager.core.manifest import Manifest
from jobmanager.core.operation import Operation
from jobmanager.core.savepoint import SavepointStatus
from jobmanager.core.upgrade import SparkVerdict
from jobmanager.protocol.inspection import AnswerBody, QuestionBody


@dataclass(frozen=True, slots=True)
class RestorePoint:
    """What a job is started from: a savepoint, or a checkpoint of another job."""

    root: str
    """file: URI that the locations in the manifest are relative to."""
    manifest: str
    name: str
    job: str
    """Who wrote it, 32 hexadecimal digits."""
    checkpoint: int | None = None
    """The number, where it is a checkpoint: it stays as long as it is needed."""
    savepoint: str | None = None
    allow_non_restored_state: bool = False
    claim: bool = False
    """It is the job's own, and goes when the job has a checkpoint."""


@dataclass(frozen=True, slots=True)
class Savepoint:
    id: SavepointId
    job_id: JobId | None
    """None: it was adopted, and no job of ours wrote it."""
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


@dataclass(frozen=True, slots=True)
class StoredOperation:
    id: OperationId
    job_id: JobId
    savepoint_id: SavepointId
    operation: Operation
    created_at: datetime
    change: Change | None = None
    """Of a rescale or an upgrade."""


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A job with what was submitted and what the shell keeps about it."""

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
    """What it was started from, or last rescaled or upgraded from."""
    base_attempt: AttemptNumber = FIRST_ATTEMPT
    """What attempts before this one left behind is not gone back to."""


@dataclass(frozen=True, slots=True)
class StoredAttempt:
    job_id: JobId
    attempt: Attempt
    restored: Sequence[Mapping[str, Any]] | None
    progress: Sequence[Mapping[str, Any]] | None
    """One entry a region, as the runner reported it."""
    progress_at: datetime | None


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    job_id: JobId
    checkpoint: Checkpoint
    acked_at: Mapping[Any, datetime]
    discarded_at: datetime | None


@dataclass(frozen=True, slots=True)
class Runner:
    id: RunnerId
    job_id: JobId
    attempt: AttemptNumber
    token_hash: str
    host: str
    log_path: str
    launched_at: datetime
    pid: int | None = None
    process_started_at: float | None = None
    spark_version: str | None = None
    registered_at: datetime | None = None
    heartbeat_at: datetime | None = None
    exited_at: datetime | None = None
    exit_description: str | None = None


@dataclass(frozen=True, slots=True)
class Launched:
    host: str
    pid: int
    process_started_at: float
    log_path: str


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    id: int
    job_id: JobId
    effect: Effect
    tries: int


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    at: datetime
    kind: str
    cause: str
    attempt: AttemptNumber | None = None
    checkpoint: CheckpointNumber | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)


class Jobs(Protocol):
    async def add(self, job: StoredJob, idempotency_key: str | None) -> None: ...
    async def get(self, job_id: JobId) -> StoredJob: ...
    async def get_for_update(self, job_id: JobId) -> StoredJob: ...
    async def with_idempotency_key(self, key: str) -> StoredJob | None: ...
    async def save(self, job: StoredJob) -> None: ...
    async def all(self) -> Sequence[StoredJob]: ...
    async def live(self) -> Sequence[JobId]: ...
    async def checkpoint_due(self, now: datetime) -> Sequence[JobId]: ...
    async def restart_due(self, now: datetime) -> Sequence[JobId]: ...
    async def pinned(self, job_id: JobId) -> frozenset[CheckpointNumber]: ...
    async def started_from(self, directory: str) -> Sequence[JobId]: ...


class Attempts(Protocol):
    async def add(self, job_id: JobId, attempt: Attempt) -> None: ...
    async def get(self, job_id: JobId, number: AttemptNumber) -> StoredAttempt: ...
    async def save(self, job_id: JobId, attempt: Attempt) -> None: ...
    async def of_job(self, job_id: JobId) -> Sequence[StoredAttempt]: ...
    async def newest(self) -> Sequence[StoredAttempt]: ...
    async def grace_ended(self, now: datetime) -> Sequence[tuple[JobId, AttemptNumber]]: ...
    async def note_restored(
        self, job_id: JobId, number: AttemptNumber, restored: Sequence[Mapping[str, Any]]
    ) -> None: ...
    async def note_progress(
        self,
        job_id: JobId,
        number: AttemptNumber,
        progress: Sequence[Mapping[str, Any]],
        at: datetime,
    ) -> None: ...


class Runners(Protocol):
    async def add(self, runner: Runner) -> None: ...
    async def get(self, runner_id: RunnerId) -> Runner: ...
    async def save(self, runner: Runner) -> None: ...
    async def note_process(self, runner_id: RunnerId, process: Launched) -> None: ...
    async def note_heartbeat(self, runner_id: RunnerId, at: datetime) -> None: ...
    async def of_attempt(self, job_id: JobId, attempt: AttemptNumber) -> Runner | None: ...
    async def alive(self) -> Sequence[Runner]: ...
    async def all(self, limit: int) -> Sequence[Runner]: ...


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


class Savepoints(Protocol):
    async def add(self, savepoint: Savepoint) -> None: ...
    async def get(self, savepoint_id: SavepointId) -> Savepoint: ...
    async def save(self, savepoint: Savepoint) -> None: ...
    async def of_checkpoint(self, job_id: JobId, number: CheckpointNumber) -> Savepoint: ...
    async def at(self, directory: str) -> Savepoint | None: ...
    async def all(self, limit: int, before: datetime | None) -> Sequence[Savepoint]: ...


class Operations(Protocol):
    async def add(self, operation: StoredOperation) -> None: ...
    async def get(self, operation_id: OperationId) -> StoredOperation | None: ...
    async def save(self, operation: StoredOperation) -> None: ...
    async def of_job(self, job_id: JobId) -> Sequence[StoredOperation]: ...
    async def of_savepoint(self, savepoint_id: SavepointId) -> StoredOperation: ...
    async def under_way(self, job_id: JobId) -> StoredOperation | None: ...
    async def changes_under_way(self) -> Sequence[StoredOperation]: ...


class KeyGroups(Protocol):
    async def replace(
        self, job_id: JobId, owned: Mapping[tuple[str, int], Sequence[int]]
    ) -> None: ...
    async def of_job(self, job_id: JobId) -> Mapping[tuple[str, int], Sequence[int]]: ...


class Outbox(Protocol):
    async def add(self, job_id: JobId, effects: Iterable[Effect], at: datetime) -> None: ...
    async def due(self, now: datetime, limit: int) -> Sequence[OutboxEntry]: ...
    async def done(self, entry_id: int) -> None: ...
    async def postpone(self, entry_id: int, until: datetime, error: str) -> None: ...
    async def directives(
        self, job_id: JobId, attempt: AttemptNumber, after: int
    ) -> Sequence[OutboxEntry]: ...
    async def taken(self, job_id: JobId, attempt: AttemptNumber, up_to: int) -> None: ...
    async def forget(self, job_id: JobId, attempt: AttemptNumber) -> None: ...


class History(Protocol):
    async def add(self, job_id: JobId, *entries: HistoryEntry) -> None: ...
    async def of_job(
        self, job_id: JobId, after: int, limit: int
    ) -> Sequence[tuple[int, HistoryEntry]]: ...


class UnitOfWork(Protocol):
    """One transaction. What is not committed never happened."""

    jobs: Jobs
    attempts: Attempts
    runners: Runners
    checkpoints: Checkpoints
    savepoints: Savepoints
    operations: Operations
    key_groups: KeyGroups
    outbox: Outbox
    history: History

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exc_info: object) -> None: ...
    async def commit(self) -> None: ...


class UnitsOfWork(Protocol):
    def __call__(self) -> UnitOfWork: ...


@dataclass(frozen=True, slots=True)
class Verification:
    files: int
    bytes: int
    faults: Sequence[str]


class SnapshotStorage(Protocol):
    """The files of checkpoints, as the JobManager sees them."""

    async def verify(self, job_id: JobId, manifest: str) -> Verification: ...
    async def verify_at(self, root: str, manifest: str) -> Verification: ...
    async def read_manifest(self, root: str, manifest: str) -> Manifest: ...
    async def dispose_savepoint(self, directory: str) -> None: ...
    async def discard_checkpoint(self, job_id: JobId, number: CheckpointNumber) -> None: ...
    async def discard_attempts(self, job_id: JobId, before: AttemptNumber) -> None: ...
    async def last_word(
        self, job_id: JobId, attempt: AttemptNumber
    ) -> Mapping[str, Any] | None: ...


class Trials(Protocol):
    """Gives Spark a graph and a copy of a checkpoint's state, and says what it made of them."""

    async def judge(
        self, job_id: JobId, checkpoint: CheckpointNumber, change: Change
    ) -> Sequence[SparkVerdict]: ...


class Launcher(Protocol):
    """Starts and ends runners."""

    def host(self) -> str: ...
    def log_path(self, runner_id: RunnerId) -> str: ...
    async def launch(self, runner_id: RunnerId, token: str) -> Launched: ...
    async def kill(self, runner: Runner) -> str: ...
    async def watch(self, runner: Runner) -> None: ...


@dataclass(frozen=True, slots=True)
class InspectorStatus:
    state: str
    """stopped, starting or ready."""
    pid: int | None
    spark_version: str | None
    log_path: str


class Inspector(Protocol):
    """Reads state, with a Spark session of its own."""

    async def ask(self, question: QuestionBody, within: timedelta) -> AnswerBody:
        """Raises `InspectorUnavailable` where no answer comes, with the reason."""
        ...

    def status(self) -> InspectorStatus: ...
