"""What the use cases need from the outside. Implemented in `store`, `storage` and `launchers`."""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol, Self

from jobmanager.core.artifact import Artifact
from jobmanager.core.graph.job_graph import JobGraph
from jobmanager.core.ids import (
    FIRST_ATTEMPT,
    ArtifactId,
    AttemptNumber,
    CheckpointNumber,
    JobId,
    JobManagerId,
    OperationId,
    RunnerId,
    SavepointId,
)
from jobmanager.core.life.attempt import Attempt
from jobmanager.core.life.change import Change
from jobmanager.core.life.checkpoint import Checkpoint
from jobmanager.core.life.effects import Effect
from jobmanager.core.life.health import Health
from jobmanager.core.life.job import Job
from jobmanager.core.life.lease import Candidate, Lease, Term
from jobmanager.core.life.operation import Operation
from jobmanager.core.life.savepoint import SavepointStatus
from jobmanager.core.sample import Sample
from jobmanager.core.snapshots.garbage import JobFacts, Judgement, Limits
from jobmanager.core.snapshots.manifest import Manifest
from jobmanager.core.snapshots.upgrade import SparkVerdict
from jobmanager.protocol.inspection import AnswerBody, QuestionBody


@dataclass(frozen=True, slots=True)
class RestorePoint:
    """What a job is started from: a savepoint, or a checkpoint of another job."""

    root: str
    """URI that the locations in the manifest are relative to."""
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
    health: Health = Health.HEALTHY
    """Other than healthy only while it runs."""
    health_reason: str | None = None
    health_since: datetime | None = None

    @property
    def state(self) -> str:
        """What people are shown. RUNNING means running: else it is stalled or degraded."""
        return self.job.status if self.health is Health.HEALTHY else self.health


@dataclass(frozen=True, slots=True)
class StoredAttempt:
    job_id: JobId
    attempt: Attempt
    restored: Sequence[Mapping[str, Any]] | None
    progress: Sequence[Mapping[str, Any]] | None
    """One entry a region, as the runner reported it."""
    progress_at: datetime | None


@dataclass(frozen=True, slots=True)
class RunningJob:
    """A job that runs, with what its health is judged by."""

    stored: StoredJob
    attempt: StoredAttempt
    heartbeat_at: datetime | None
    checkpointed_at: datetime | None
    """When its newest checkpoint or savepoint completed."""


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
    versions: Mapping[str, Any] = field(default_factory=dict)
    memory: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class RunnerAtWork:
    """A runner, and what became of the attempt it has."""

    runner: Runner
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class NotedProgress:
    job_id: JobId
    attempt: AttemptNumber
    regions: Sequence[Mapping[str, Any]]


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


@dataclass(frozen=True, slots=True)
class Mailbox:
    """What waits for a runner."""

    job_id: JobId
    attempt: AttemptNumber
    token_hash: str
    entries: "list[OutboxEntry]"


class Actor(StrEnum):
    """Whose message or decision it was that moved things."""

    CLIENT = "client"
    RUNNER = "runner"
    JOBMANAGER = "jobmanager"


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    at: datetime
    kind: str
    cause: str
    attempt: AttemptNumber | None = None
    checkpoint: CheckpointNumber | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobManager:
    """One server."""

    id: JobManagerId
    url: str
    host: str
    pid: int
    version: str
    started_at: datetime
    seen_at: datetime
    """When it was last heard of, by the database's clock."""
    warm: Mapping[str, int] | None = None
    """Its warm runners: `wanted`, `primed`, `starting`. None: it keeps none."""


@dataclass(frozen=True, slots=True)
class Election:
    """Who leads and who could, as the database had it at one moment."""

    at: datetime
    """The database's time."""
    lease: Lease
    jobmanagers: Sequence[JobManager]


@dataclass(frozen=True, slots=True)
class Recorded:
    """A history entry as it was kept."""

    id: int
    """Ascends in the order in which entries became visible, over all jobs."""
    job_id: JobId
    job_name: str
    job_state: str
    """At present, not at the time of the entry."""
    actor: Actor
    entry: HistoryEntry


@dataclass(frozen=True, slots=True)
class LiveProgress:
    """What the runner of a live job last said."""

    job_id: JobId
    job_name: str
    job_state: str
    attempt: AttemptNumber
    at: datetime
    regions: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class JobFigures:
    """What can be counted of one live job."""

    id: JobId
    name: str
    is_healthy: bool
    restarts: int
    failed_checkpoints: int
    checkpointed_at: datetime | None
    checkpoint_took: timedelta | None
    checkpoint_bytes: int | None
    heartbeat_at: datetime | None
    progress: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Figures:
    """What can be counted of a cluster."""

    states: Mapping[str, int]
    restarts: int
    jobs: Sequence[JobFigures]
    outbox: Mapping[str, int]
    outbox_oldest: datetime | None
    operations: Mapping[str, int]
    runners: int


@dataclass(frozen=True, slots=True)
class SeriesPoint:
    """The samples of one bin: sums, and for sizes and lag the largest."""

    at: datetime
    """The beginning of the bin."""
    span_ms: int
    input_rows: int
    output_rows: int
    batches: int
    busy_ms: int
    phases_ms: Mapping[str, int]
    state_rows: int
    state_bytes: int
    lag_ms: int | None


@dataclass(frozen=True, slots=True)
class SummaryFilter:
    limit: int
    before: tuple[datetime, JobId] | None = None
    """Go on after the job that was submitted then."""
    states: Sequence[str] = ()
    """As people are shown; none: all."""
    text: str = ""
    """In the name, or at the start of the id."""
    only: Sequence[JobId] = ()


@dataclass(frozen=True, slots=True)
class JobSummary:
    """One line about a job, read without its graph."""

    id: JobId
    name: str
    mode: str
    state: str
    reason: str
    since: datetime
    submitted_at: datetime
    ended_at: datetime | None
    running_since: datetime | None
    attempt: int
    restarts: int
    parallelism: int
    failed_checkpoints: int
    restored_from: str | None
    progress: Sequence[Mapping[str, Any]]
    """Of a live job."""
    checkpoint: int | None
    checkpoint_triggered_at: datetime | None
    checkpoint_ended_at: datetime | None
    checkpoint_bytes: int | None


class Jobs(Protocol):
    async def add(self, job: StoredJob, idempotency_key: str | None) -> None: ...
    async def get(self, job_id: JobId) -> StoredJob: ...
    async def get_for_update(self, job_id: JobId) -> StoredJob: ...
    async def with_idempotency_key(self, key: str) -> StoredJob | None: ...
    async def save(self, job: StoredJob) -> None: ...
    async def all(self) -> Sequence[StoredJob]: ...
    async def live(self) -> Sequence[JobId]: ...
    async def restart_due(self, now: datetime) -> Sequence[JobId]: ...
    async def running(self, only: JobId | None = None) -> Sequence[RunningJob]: ...
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
    async def note_progress_of(self, progress: Sequence[NotedProgress], at: datetime) -> None:
        """Of all whose rows nobody else holds just now."""


class Runners(Protocol):
    async def add(self, runner: Runner) -> None: ...
    async def get(self, runner_id: RunnerId) -> Runner: ...
    async def save(self, runner: Runner) -> None: ...
    async def note_process(self, runner_id: RunnerId, process: Launched) -> None: ...
    async def note_heartbeat(
        self, runner_id: RunnerId, at: datetime, memory: Mapping[str, Any] | None = None
    ) -> None: ...
    async def note_heartbeats(
        self, heard: Mapping[RunnerId, Mapping[str, Any] | None], at: datetime
    ) -> None:
        """Of all whose rows nobody else holds just now, with the memory that each says it takes."""
        ...

    async def at_work(
        self, only: Sequence[RunnerId] | None = None
    ) -> Mapping[RunnerId, RunnerAtWork]:
        """These, or all that are not known to be gone."""
        ...

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
    async def prune(self, keep: int, limit: int) -> int:
        """Forgets rows beyond the newest `keep` of a job that nothing needs; how many."""


class Rounds(Protocol):
    """Checkpoints of many jobs at once. A job is plain that nothing else happens to: no operation
    is under way, and nobody else holds its row.
    """

    async def due(self, now: datetime, limit: int) -> DueCheckpoints: ...
    async def trigger(self, triggered: Sequence[Triggered]) -> None: ...
    async def unacked(self, asked: Mapping[JobId, CheckpointNumber]) -> Mapping[JobId, Unacked]: ...
    async def complete(self, completed: Sequence[Completed]) -> None: ...


class Savepoints(Protocol):
    async def add(self, savepoint: Savepoint) -> None: ...
    async def get(self, savepoint_id: SavepointId) -> Savepoint: ...
    async def save(self, savepoint: Savepoint) -> None: ...
    async def of_checkpoint(self, job_id: JobId, number: CheckpointNumber) -> Savepoint: ...
    async def at(self, directory: str) -> Savepoint | None: ...
    async def all(self, limit: int, before: datetime | None) -> Sequence[Savepoint]: ...


class Artifacts(Protocol):
    async def add(self, artifact: Artifact) -> None: ...
    async def get(self, artifact_id: ArtifactId) -> Artifact: ...
    async def hold(self, artifact_id: ArtifactId, *, to_delete: bool = False) -> Artifact | None:
        """The same, None where there is none; until the commit nobody deletes it, or uses it."""

    async def named(self, name: str) -> Artifact | None:
        """The one that was uploaded last under that name."""

    async def all(self, limit: int, before: datetime | None) -> Sequence[Artifact]: ...
    async def ids(self) -> Set[ArtifactId]: ...
    async def delete(self, artifact_id: ArtifactId) -> None: ...
    async def users(self, artifact_id: ArtifactId) -> Sequence[JobId]:
        """The jobs that have not ended and have it in their graph."""


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
    async def add(
        self, job_id: JobId, effects: Iterable[Effect], at: datetime, *, rings: bool = True
    ) -> None:
        """To be written when the transaction is committed. `rings`: who waits is woken."""

    async def due(self, now: datetime, limit: int) -> Sequence[OutboxEntry]: ...
    async def done(self, entries: Sequence[int]) -> None: ...
    async def postpone(self, entry_id: int, until: datetime, error: str) -> None: ...
    async def mailboxes(self, runners: Sequence[RunnerId]) -> Mapping[RunnerId, Mailbox]: ...
    async def taken(self, up_to: Mapping[tuple[JobId, AttemptNumber], int]) -> None:
        """The runners of these attempts have their directives up to there."""

    async def forget(self, job_id: JobId, attempt: AttemptNumber) -> None: ...


class History(Protocol):
    async def add(self, job_id: JobId, *entries: HistoryEntry) -> None: ...
    async def announce(self, job_id: JobId, kind: str, facts: Mapping[str, Any]) -> None:
        """Tells those who listen just now, when this is committed. It is kept nowhere."""

    async def after(
        self, after: int, limit: int, job_id: JobId | None = None
    ) -> Sequence[Recorded]: ...
    async def before(self, before: int | None, limit: int, job_id: JobId) -> Sequence[Recorded]: ...
    async def newest(self) -> int: ...
    async def progress(self) -> Sequence[LiveProgress]: ...
    async def prune(self, before: datetime, limit: int) -> int:
        """Forgets old entries of jobs that have ended; how many."""


class Statistics(Protocol):
    async def read(self) -> Figures: ...


class Samples(Protocol):
    async def add(self, samples: Iterable[tuple[JobId, str, Sample]]) -> None: ...
    async def series(
        self, job_id: JobId, since: datetime, until: datetime, step: timedelta
    ) -> Mapping[str, Sequence[SeriesPoint]]: ...
    async def input_rates(
        self, jobs: Sequence[JobId], since: datetime, step: timedelta
    ) -> Mapping[JobId, Sequence[tuple[datetime, float]]]: ...
    async def sum_up(self, finer_s: int, coarser_s: int, before: datetime) -> int: ...
    async def prune(self, before: datetime, resolution_s: int) -> None: ...


class Summaries(Protocol):
    async def page(self, wanted: SummaryFilter) -> Sequence[JobSummary]: ...
    async def counts(self) -> Mapping[str, int]: ...


class UnitOfWork(Protocol):
    """One transaction. What is not committed never happened."""

    jobs: Jobs
    attempts: Attempts
    runners: Runners
    checkpoints: Checkpoints
    rounds: Rounds
    savepoints: Savepoints
    operations: Operations
    artifacts: Artifacts
    key_groups: KeyGroups
    outbox: Outbox
    history: History
    statistics: Statistics
    samples: Samples
    summaries: Summaries

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exc_info: object) -> None: ...
    async def commit(self) -> None: ...


class UnitsOfWork(Protocol):
    def __call__(self, actor: Actor = Actor.JOBMANAGER) -> UnitOfWork: ...


class Leases(Protocol):
    """The lease, and the list of those who could hold it. Each call is a transaction."""

    async def look(self) -> Election: ...
    async def take(self, candidate: Candidate, seen: Term, duration: timedelta) -> Term | None: ...
    async def renew(self, term: Term, duration: timedelta) -> bool: ...
    async def release(self, term: Term) -> None: ...
    async def attend(self, jobmanager: JobManager) -> None: ...
    async def leave(self, jobmanager: JobManagerId) -> None: ...


class WhoLeads(Protocol):
    """Whether this JobManager leads, and what it knows of the others."""

    @property
    def term(self) -> Term | None:
        """None: it does not lead."""

    @property
    def leader_url(self) -> str | None:
        """None: nobody leads, as far as is known."""

    @property
    def urls(self) -> Sequence[str]:
        """Where JobManagers are reached, the leader first."""

    async def look(self) -> Election: ...


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

    @property
    def sweep(self) -> "Sweep": ...
    @property
    def artifacts(self) -> "ArtifactFiles": ...


class ArtifactFiles(Protocol):
    """The contents of artifacts, in the storage that all JobManagers and runners share."""

    async def put(self, artifact_id: ArtifactId, name: str, content: bytes) -> None:
        """Durable when it returns. What is there already stays."""

    async def remove(self, artifact_id: ArtifactId) -> None: ...
    async def found(self) -> Mapping[ArtifactId, "FoundArtifact"]: ...
    async def read_local(self, path: str) -> bytes:
        """A file on the server's machine. Raises `OSError`."""


@dataclass(frozen=True, slots=True)
class FoundArtifact:
    path: str
    """A URI."""
    bytes: int
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class Remains:
    """What is left of a savepoint that is none, or none any more."""

    path: str
    bytes: int


class Sweep(Protocol):
    """Storage as the garbage collector sees it. Paths in answers are URIs.

    With `deletes` off, the same is looked at and said, and nothing is touched.
    """

    async def jobs(self) -> Set[str]:
        """The names of all jobs' directories: ids, in 32 hexadecimal digits."""

    async def checkpoints(self, job_id: JobId) -> Set[CheckpointNumber]:
        """The checkpoints of a job that have a directory."""

    async def job(
        self, job_id: JobId, facts: JobFacts, limits: Limits, *, deletes: bool
    ) -> Judgement: ...
    async def unknown_job(
        self, name: str, needed: Iterable[str], limits: Limits, *, deletes: bool
    ) -> Judgement:
        """`needed` are URIs of what is kept, wherever it is."""

    async def drafts(self) -> Mapping[str, int]:
        """Drafts of savepoints in our own directory for them: URI of the savepoint, and size."""

    async def remains(self, directory: str, *, is_complete: bool) -> Sequence[Remains]:
        """What is left of a savepoint. Of one that is complete: only its draft."""

    async def delete(self, remains: Remains) -> None: ...


class Trials(Protocol):
    """Gives Spark a graph and a copy of the newest checkpoint, and says what it made of them."""

    async def judge(self, job_id: JobId, change: Change) -> Sequence[SparkVerdict]: ...


class Launcher(Protocol):
    """Starts and ends runners."""

    def host(self) -> str: ...
    def log_path(self, runner_id: RunnerId) -> str: ...
    def reserve(self) -> RunnerId | None: ...
    async def launch(self, runner_id: RunnerId, token: str) -> Launched: ...
    async def find(self, runner: Runner) -> Launched | None:
        """Its process, where it runs on this machine, whoever started it."""

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
