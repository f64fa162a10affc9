"""The shapes of the answers, generated from the API's own: `make types` writes it.

The names are those of the OpenAPI document. The server may add fields.
"""

from typing import Any, Literal, NotRequired, TypedDict


class Alive(TypedDict):
    status: str


class Ready(TypedDict):
    status: str
    leader: bool
    """Whether this JobManager leads."""
    leader_url: str | None
    """Null while no JobManager leads: then only reads are served."""
    term: int | None
    """The term in which this JobManager leads; null: it does not lead."""
    started_at: str


ApplicationLine = TypedDict(
    "ApplicationLine",
    {
        # That of its job.
        "id": str,
        "name": str,
        "start-time": int,
        # -1: it has not ended.
        "end-time": int,
        "duration": int,
        "status": str,
        # Jobs in each state.
        "jobs": dict[str, int],
    },
)


class Applications(TypedDict):
    applications: list[ApplicationLine]


JobStatus = Literal[
    "starting",
    "running",
    "restarting",
    "pausing",
    "paused",
    "cancelling",
    "cancelled",
    "finished",
    "failed",
]


class MetaResponse(TypedDict):
    """What people want to know of a job, from its graph."""

    owner: str | None
    description: str | None
    runbook: str | None
    """A web address."""
    labels: dict[str, str]


JobLine = TypedDict(
    "JobLine",
    {
        "jid": str,
        "name": str,
        "jobType": str,
        "schedulerType": str,
        "start-time": int,
        # -1: the job has not ended.
        "end-time": int,
        "duration": int,
        "state": str,
        "last-modification": int,
        # Subtasks in all (`total`), and in each state.
        "tasks": dict[str, int],
        "pending-operators": int,
        # As in the native status.
        "headgate-state": JobStatus | Literal["stalled", "degraded"],
        "headgate-meta": MetaResponse,
    },
)


ApplicationPage = TypedDict(
    "ApplicationPage",
    {
        "id": str,
        "name": str,
        "status": str,
        "start-time": int,
        "end-time": int,
        "duration": int,
        "timestamps": dict[str, int],
        "jobs": list[JobLine],
    },
)


class Nothing(TypedDict):
    """An empty object."""


class ApplicationException(TypedDict):
    exceptionName: str
    stacktrace: str
    timestamp: int
    jobId: str


class ApplicationExceptionEntries(TypedDict):
    entries: list[ApplicationException]


class ApplicationExceptions(TypedDict):
    exceptionHistory: ApplicationExceptionEntries


class ConfigurationEntry(TypedDict):
    key: str
    value: str


Configuration = list[ConfigurationEntry]


class ArtifactResponse(TypedDict):
    id: str
    """The SHA-256 of the content."""
    name: str
    bytes: int
    modules: list[str]
    """What can be imported from the artifact."""
    uploaded_at: str


class ArtifactPage(TypedDict):
    items: list[ArtifactResponse]
    next: str | None


class ArtifactDetails(TypedDict):
    id: str
    """The SHA-256 of the content."""
    name: str
    bytes: int
    modules: list[str]
    """What can be imported from the artifact."""
    uploaded_at: str
    names: dict[str, list[str]]
    """Top-level names of each module."""
    jobs: list[str]
    """Jobs that have not ended and use the artifact."""


Role = Literal[
    "viewer",
    "operator",
    "developer",
    "admin",
]


class AuditItem(TypedDict):
    """A request that would have changed something."""

    id: int
    at: str
    actor: str
    """The name of the token, or `anonymous`."""
    role: Role
    origin: str | None
    """The address that the request came from: that of the client, or of a proxy."""
    method: str
    route: str
    """The path template of the route, without /v1."""
    subject: str | None
    """The id of the job, savepoint or artifact, or the name of the token, to be changed."""
    status: int | None
    """The status of the answer. Null: the request is under way, or the server ended before it
    answered."""
    forwarded_by: str | None
    """The id of the JobManager that forwarded the request to the leader, as its header says."""


class AuditPage(TypedDict):
    items: list[AuditItem]
    next: int | None
    """The `before` of the next page; null: this is the last page."""


WebFeatures = TypedDict(
    "WebFeatures",
    {
        "web-submit": bool,
        "web-cancel": bool,
        "web-rescale": bool,
        "web-history": bool,
    },
)


WebConfig = TypedDict(
    "WebConfig",
    {
        "refresh-interval": int,
        "timezone-name": str,
        "timezone-offset": int,
        "flink-version": str,
        "flink-revision": str,
        "features": WebFeatures,
    },
)


class DataSets(TypedDict):
    dataSets: list[str]
    """Always empty."""


class QueueStatus(TypedDict):
    id: Literal["IN_PROGRESS", "COMPLETED"]


FailureCause = TypedDict(
    "FailureCause",
    {
        "class": str,
        "stack-trace": str,
        # Base64 of a Java object that holds the class name and both texts: what Flink's Java
        # clients read.
        "serialized-throwable": str,
    },
)


TriggerResult = TypedDict(
    "TriggerResult",
    {
        # Where the savepoint is; absent: the operation failed, or makes none.
        "location": NotRequired[str],
        # Absent: the operation did not fail.
        "failure-cause": NotRequired[FailureCause | None],
    },
)


class TriggerStatus(TypedDict):
    status: QueueStatus
    operation: TriggerResult | None
    """Null: the operation is under way."""


RequestAccepted = TypedDict(
    "RequestAccepted",
    {
        # The id of the operation.
        "request-id": str,
    },
)


GarbageKind = Literal[
    "checkpoint",
    "pool_file",
    "attempt",
    "savepoint_draft",
    "unknown_job",
    "unknown_artifact",
]


class GarbageItem(TypedDict):
    path: str
    kind: GarbageKind
    bytes: int
    why: str


class GarbageResponse(TypedDict):
    dry_run: bool
    items: list[GarbageItem]
    """The items that were deleted, or would be deleted."""
    bytes: int
    """Size of the items. Deleting a file that has other links frees nothing."""
    left: list[GarbageItem]
    """Items that were not deleted, and which option would delete them."""
    kept: dict[str, int]
    """How many of each kind are needed."""


class InspectorResponse(TypedDict):
    """The process that reads state."""

    state: Literal["stopped", "starting", "ready"]
    pid: int | None
    spark_version: str | None
    log: str
    """The path of the log."""


class JarEntry(TypedDict):
    name: str
    description: str | None


class JarFile(TypedDict):
    id: str
    name: str
    uploaded: int
    entry: list[JarEntry]


class JarList(TypedDict):
    address: str
    files: list[JarFile]


class JarUploaded(TypedDict):
    filename: str
    """A path whose last part is the jar's id."""
    status: Literal["success"]


class PlanInput(TypedDict):
    id: str
    """The task that the rows come from."""
    num: int
    exchange: str
    ship_strategy: str


PlanNode = TypedDict(
    "PlanNode",
    {
        "id": str,
        "operator": str,
        "parallelism": int,
        "operator_strategy": str,
        "description": str,
        "optimizer_properties": dict[str, Any],
        # The vertices that are chained in the task.
        "headgate-vertices": list[str],
        # Absent: the task reads a source.
        "inputs": NotRequired[list[PlanInput]],
    },
)


PlanRegion = TypedDict(
    "PlanRegion",
    {
        "id": str,
        "vertices": list[str],
        "root": str,
        "sinks": list[str],
        "output-mode": str,
        # Spark's own plan; absent: it was not asked for.
        "spark-plan": NotRequired[str],
    },
)


JobPlan = TypedDict(
    "JobPlan",
    {
        "jid": str,
        "name": str,
        "type": str,
        "nodes": list[PlanNode],
        "headgate-regions": list[PlanRegion],
    },
)


class JobPlanResponse(TypedDict):
    plan: JobPlan


class JarStarted(TypedDict):
    jobid: str
    applicationId: str


class ApplicationStarted(TypedDict):
    applicationid: str


class VirtualMachine(TypedDict):
    version: str
    arch: str
    options: list[str]


class PythonEnvironment(TypedDict):
    jvm: VirtualMachine
    """Python, which runs the JobManager."""
    classpath: list[str]


class LogFile(TypedDict):
    name: str
    size: int
    mtime: int


class LogList(TypedDict):
    logs: list[LogFile]


class MetricValue(TypedDict):
    id: str
    value: NotRequired[str]
    """Absent: only the names were asked for."""


MetricList = list[MetricValue]


class Profilings(TypedDict):
    profilingList: list[str]
    """Always empty."""


class ThreadText(TypedDict):
    threadName: str
    stringifiedThreadInfo: str


class ThreadDump(TypedDict):
    threadInfos: list[ThreadText]


class WarmRunners(TypedDict):
    """The runners that a JobManager keeps ready for jobs to come."""

    wanted: int
    primed: int
    starting: int


class JobManagerItem(TypedDict):
    id: str
    url: str
    host: str
    pid: int
    version: str
    started_at: str
    seen_at: str
    is_leader: bool
    warm: WarmRunners | None
    """Null: this JobManager does not lead, and keeps no warm runners."""


class LeaseItem(TypedDict):
    holder: str | None
    """The JobManager that leads, or led last."""
    url: str | None
    expires_at: str
    is_in_force: bool
    remaining_ms: int


class JobManagerList(TypedDict):
    items: list[JobManagerItem]
    leader: str | None
    """The leader's URL; null while no JobManager leads."""
    term: int
    lease: LeaseItem


class JobWithStatus(TypedDict):
    id: str
    status: str


class JobsWithStatus(TypedDict):
    jobs: list[JobWithStatus]


class GraphFault(TypedDict):
    """A fault of a job graph, or of another request."""

    vertex: str | None
    """Null: the fault is not in a vertex."""
    field: str | None
    """Null: the fault is in the vertex, or the graph, as a whole."""
    message: str


class DryRun(TypedDict):
    plan: JobPlan | None
    """Null: the graph has faults."""
    faults: list[GraphFault]


class JobSubmitted(TypedDict):
    jobid: str


class AggregatedMetric(TypedDict):
    """Over several components. Absent: not asked for."""

    id: str
    min: NotRequired[float | Literal["NaN"]]
    max: NotRequired[float | Literal["NaN"]]
    avg: NotRequired[float | Literal["NaN"]]
    sum: NotRequired[float | Literal["NaN"]]
    skew: NotRequired[float | Literal["NaN"]]


AggregatedMetricList = list[AggregatedMetric]


class JobsOverview(TypedDict):
    jobs: list[JobLine]


Mode = Literal[
    "streaming",
    "batch",
]


class Traffic(TypedDict):
    """Rows of all regions together; the counts are those of the present attempt."""

    input_rows: int
    output_rows: int
    input_rows_per_second: float
    is_idle: bool


class LastCheckpoint(TypedDict):
    number: int
    completed_at: str
    duration_ms: int
    bytes: int


class SummaryItem(TypedDict):
    id: str
    name: str
    mode: Mode
    state: JobStatus | Literal["stalled", "degraded"]
    reason: str
    since: str
    submitted_at: str
    ended_at: str | None
    running_since: str | None
    attempt: int
    restarts: int
    parallelism: int
    failed_checkpoints: int
    """In a row."""
    restored_from: str | None
    traffic: Traffic | None
    """Null until the job's runner has reported progress."""
    lag: int | None
    """Milliseconds, as in the status."""
    last_checkpoint: LastCheckpoint | None
    recent: list[float]
    """Rows read a second, for each ten seconds of the last five minutes."""
    meta: MetaResponse


class SummaryPage(TypedDict):
    items: list[SummaryItem]
    next: str | None
    counts: dict[str, int]
    """Jobs in each state, of all jobs."""


TaskMetrics = TypedDict(
    "TaskMetrics",
    {
        "read-bytes": int,
        "read-bytes-complete": bool,
        "write-bytes": int,
        "write-bytes-complete": bool,
        "read-records": int,
        "read-records-complete": bool,
        "write-records": int,
        "write-records-complete": bool,
        # -1: unknown, also of the idle time.
        "accumulated-backpressured-time": int,
        "accumulated-idle-time": int,
        # NaN: unknown.
        "accumulated-busy-time": float | Literal["NaN"],
    },
)


JobTask = TypedDict(
    "JobTask",
    {
        "id": str,
        "slotSharingGroupId": str,
        "name": str,
        "maxParallelism": int,
        "parallelism": int,
        "status": str,
        "start-time": int,
        "end-time": int,
        "duration": int,
        # Subtasks in each state.
        "tasks": dict[str, int],
        "metrics": TaskMetrics,
        "headgate-vertices": list[str],
    },
)


JobDetails = TypedDict(
    "JobDetails",
    {
        "jid": str,
        "application-id": str,
        "name": str,
        "isStoppable": bool,
        "state": str,
        "job-type": str,
        "schedulerType": str,
        "start-time": int,
        "end-time": int,
        "duration": int,
        "maxParallelism": int,
        "now": int,
        "timestamps": dict[str, int],
        "vertices": list[JobTask],
        "status-counts": dict[str, int],
        "plan": JobPlan,
        "pending-operators": int,
    },
)


class Accumulator(TypedDict):
    name: str
    type: str
    value: str
    vertices: list[str]
    """Whose code counted."""


JobAccumulators = TypedDict(
    "JobAccumulators",
    {
        "job-accumulators": list[Accumulator],
        "user-task-accumulators": list[Accumulator],
        "serialized-user-task-accumulators": dict[str, str],
    },
)


class CheckpointCounts(TypedDict):
    restored: int
    total: int
    in_progress: int
    completed: int
    failed: int


class FigureStatistics(TypedDict):
    min: int
    max: int
    avg: int
    p50: int | float | Literal["NaN"]
    p90: int | float | Literal["NaN"]
    p95: int | float | Literal["NaN"]
    p99: int | float | Literal["NaN"]
    p999: int | float | Literal["NaN"]


class CheckpointsSummary(TypedDict):
    checkpointed_size: FigureStatistics
    state_size: FigureStatistics
    end_to_end_duration: FigureStatistics
    alignment_buffered: FigureStatistics
    processed_data: FigureStatistics
    persisted_data: FigureStatistics


class TaskCheckpoint(TypedDict):
    id: int
    status: Literal["IN_PROGRESS", "COMPLETED", "FAILED"]
    latest_ack_timestamp: int
    """-1: nothing was acked yet."""
    end_to_end_duration: int
    alignment_buffered: int
    processed_data: int
    persisted_data: int
    checkpointed_size: int
    """What the checkpoint added to the job's pool of files."""
    state_size: int
    """All of the checkpoint."""
    num_subtasks: int
    num_acknowledged_subtasks: int


class CheckpointLine(TypedDict):
    className: str
    id: int
    status: Literal["IN_PROGRESS", "COMPLETED", "FAILED"]
    is_savepoint: bool
    savepointFormat: str | None
    trigger_timestamp: int
    latest_ack_timestamp: int
    """-1: nothing was acked yet."""
    end_to_end_duration: int
    alignment_buffered: int
    processed_data: int
    persisted_data: int
    checkpointed_size: int
    """What the checkpoint added to the job's pool of files."""
    state_size: int
    """All of the checkpoint."""
    num_subtasks: int
    num_acknowledged_subtasks: int
    checkpoint_type: str
    tasks: dict[str, TaskCheckpoint]
    """By task; empty in lists."""
    external_path: NotRequired[str]
    """Where the checkpoint is; absent: it is not complete."""
    discarded: NotRequired[bool]
    """Absent: the checkpoint is not complete."""
    failure_timestamp: NotRequired[int]
    """Absent: the checkpoint has not failed."""
    failure_message: NotRequired[str]
    """Absent: the checkpoint has not failed."""


class RestoredRegion(TypedDict):
    """What a region was restored from in a new attempt, and why."""

    region: str
    origin: Literal["scratch", "attempt", "checkpoint", "savepoint"]
    batch: int | None
    source: int | None
    """Number of the attempt or checkpoint."""
    why: str


RestoredCheckpoint = TypedDict(
    "RestoredCheckpoint",
    {
        "id": int,
        "restore_timestamp": int,
        "is_savepoint": bool,
        "external_path": str,
        "headgate-origins": list[RestoredRegion],
    },
)


class LatestCheckpoints(TypedDict):
    completed: CheckpointLine | None
    savepoint: CheckpointLine | None
    failed: CheckpointLine | None
    restored: RestoredCheckpoint | None


class CheckpointsStatistics(TypedDict):
    counts: CheckpointCounts
    summary: CheckpointsSummary
    latest: LatestCheckpoints
    history: list[CheckpointLine]


CheckpointTriggered = TypedDict(
    "CheckpointTriggered",
    {
        "number": int,
        # With which Flink's clients ask for the outcome.
        "request-id": str,
    },
)


class Externalization(TypedDict):
    enabled: bool
    delete_on_cancellation: bool


class CheckpointsConfig(TypedDict):
    mode: str
    interval: int
    timeout: int
    min_pause: int
    max_concurrent: int
    externalization: Externalization
    state_backend: str
    checkpoint_storage: str
    unaligned_checkpoints: bool
    tolerable_failed_checkpoints: int
    aligned_checkpoint_timeout: int
    checkpoints_after_tasks_finish: bool
    state_changelog_enabled: bool
    changelog_periodic_materialization_interval: int
    changelog_storage: str


DurationStatistics = TypedDict(
    "DurationStatistics",
    {
        "sync": FigureStatistics,
        "async": FigureStatistics,
    },
)


class AlignmentStatistics(TypedDict):
    buffered: FigureStatistics
    processed: FigureStatistics
    persisted: FigureStatistics
    duration: FigureStatistics


class SubtasksSummary(TypedDict):
    checkpointed_size: FigureStatistics
    state_size: FigureStatistics
    end_to_end_duration: FigureStatistics
    checkpoint_duration: DurationStatistics
    alignment: AlignmentStatistics
    start_delay: FigureStatistics


CheckpointDurations = TypedDict(
    "CheckpointDurations",
    {
        "sync": int,
        "async": int,
    },
)


class CheckpointAlignment(TypedDict):
    """Always 0: a barrier is the end of a batch, and nothing waits in between."""

    buffered: int
    processed: int
    persisted: int
    duration: int


class SubtaskCheckpoint(TypedDict):
    """What comes after `status` is absent while the ack is awaited."""

    className: Literal["completed", "pending"]
    index: int
    status: str
    ack_timestamp: NotRequired[int]
    end_to_end_duration: NotRequired[int]
    checkpointed_size: NotRequired[int]
    state_size: NotRequired[int]
    checkpoint: NotRequired[CheckpointDurations | None]
    alignment: NotRequired[CheckpointAlignment | None]
    start_delay: NotRequired[int]
    unaligned_checkpoint: NotRequired[bool]
    aborted: NotRequired[bool]


class TaskCheckpointDetails(TypedDict):
    id: int
    status: Literal["IN_PROGRESS", "COMPLETED", "FAILED"]
    latest_ack_timestamp: int
    """-1: nothing was acked yet."""
    end_to_end_duration: int
    alignment_buffered: int
    processed_data: int
    persisted_data: int
    checkpointed_size: int
    """What the checkpoint added to the job's pool of files."""
    state_size: int
    """All of the checkpoint."""
    num_subtasks: int
    num_acknowledged_subtasks: int
    summary: SubtasksSummary
    subtasks: list[SubtaskCheckpoint]


CheckpointKind = Literal[
    "periodic",
    "requested",
    "savepoint",
]


CheckpointStatus = Literal[
    "in_progress",
    "completed",
    "aborted",
]


AbortReason = Literal[
    "declined_not_running",
    "declined_no_boundary_in_time",
    "declined_storage",
    "declined_superseded",
    "declined_internal",
    "expired",
    "attempt_ended",
]


class CheckpointFailure(TypedDict):
    reason: AbortReason
    detail: str | None


SnapshotKind = Literal[
    "state",
    "offsets",
    "sink",
]


class AckResponse(TypedDict):
    region: str
    vertex: str
    subtask: int
    acked_at: str
    waited_ms: int | None
    """How long the runner waited for the end of the region's batch; null: unknown."""
    snapshot_ms: int | None
    """How long the runner then took to write the snapshots of all subtasks; null: unknown."""
    kind: SnapshotKind
    pointer: str | None
    """The file with the state, relative to where the job's checkpoints are."""
    version: int | None
    """For `state`: Spark's state version. For `offsets` and `sink`: the batch."""
    bytes: int
    key_groups: list[int]
    offsets: Any
    """A source's offsets, as Spark writes them; null: not a source."""
    watermark: str | None


class SubtaskResponse(TypedDict):
    region: str
    vertex: str
    subtask: int


class CheckpointResponse(TypedDict):
    number: int
    kind: CheckpointKind
    status: CheckpointStatus
    attempt: int
    triggered_at: str
    completed_at: str | None
    batch: dict[str, int | None]
    """By region, the batch that was the barrier."""
    bytes: int
    new_bytes: int
    """Bytes that this checkpoint added to the job's pool of files."""
    manifest: str | None
    discarded_at: str | None
    failure: CheckpointFailure | None
    acks: list[AckResponse]
    awaited: list[SubtaskResponse]


class CheckpointTriggerResult(TypedDict):
    checkpointId: NotRequired[int | None]
    """Absent: the checkpoint failed."""
    failureCause: NotRequired[FailureCause | None]
    """Absent: the checkpoint did not fail."""


class CheckpointTriggerStatus(TypedDict):
    status: QueueStatus
    operation: CheckpointTriggerResult | None
    """Null: the checkpoint is under way."""


CheckpointOrTrigger = CheckpointResponse | CheckpointTriggerStatus


class VerificationResponse(TypedDict):
    files: int
    bytes: int
    faults: list[str]
    """Files that are missing, truncated or altered; empty: every file is as it was written."""


ExecutionConfig = TypedDict(
    "ExecutionConfig",
    {
        "restart-strategy": str,
        "job-parallelism": int,
        "object-reuse-mode": bool,
        # Spark settings of the job graph.
        "user-config": dict[str, str],
    },
)


JobConfig = TypedDict(
    "JobConfig",
    {
        "jid": str,
        "name": str,
        "execution-config": ExecutionConfig,
    },
)


FailedAttempt = TypedDict(
    "FailedAttempt",
    {
        "exceptionName": str,
        "stacktrace": str,
        "timestamp": int,
        "failureLabels": dict[str, str],
        # The region that failed; null: the attempt as a whole.
        "taskName": str | None,
        "endpoint": str | None,
        "taskManagerId": str | None,
        "concurrentExceptions": list[str],
        "headgate-message": str,
        "headgate-attempt": int,
    },
)


class ExceptionHistory(TypedDict):
    entries: list[FailedAttempt]
    truncated: bool


class JobExceptions(TypedDict):
    exceptionHistory: ExceptionHistory


ExecutionResult = TypedDict(
    "ExecutionResult",
    {
        "id": str,
        "name": str,
        "application-status": Literal["SUCCEEDED", "FAILED", "CANCELED", "UNKNOWN"],
        # Always empty: values of ours are no Java objects. `…/accumulators` has them.
        "accumulator-results": dict[str, str],
        "net-runtime": int,
        "application-id": str,
        "start-time": int,
        "end-time": int,
        # Absent: the job did not fail.
        "failure-cause": NotRequired[FailureCause | None],
    },
)


ExecutionResultResponse = TypedDict(
    "ExecutionResultResponse",
    {
        "status": QueueStatus,
        # Absent: the job has not ended.
        "job-execution-result": NotRequired[ExecutionResult | None],
    },
)


class GraphResponse(TypedDict):
    graph: dict[str, Any]
    """A job graph, in the language of docs/job-graph.md."""
    revision: int
    parallelism: int
    """The parallelism in force, which may differ from the graph's own."""


Actor = Literal[
    "client",
    "runner",
    "jobmanager",
]


class HistoryItem(TypedDict):
    id: int
    at: str
    kind: str
    cause: str
    actor: Actor
    actor_name: str | None
    """For a client: the name of its token, or `anonymous`."""
    attempt: int | None
    checkpoint: int | None
    detail: dict[str, Any]
    """Details, which depend on the kind of entry."""


class HistoryPage(TypedDict):
    items: list[HistoryItem]
    next: str | None


class LogUrl(TypedDict):
    url: str


class KeyGroupSubtask(TypedDict):
    subtask: int
    key_groups: list[int]


class KeyGroupVertex(TypedDict):
    vertex: str
    subtasks: list[KeyGroupSubtask]


class KeyGroupsResponse(TypedDict):
    max_parallelism: int
    parallelism: int
    vertices: list[KeyGroupVertex]


Trend = Literal[
    "growing",
    "shrinking",
    "steady",
    "unknown",
]


class LagResponse(TypedDict):
    """Whether the job catches up with its input, from the samples of the last minutes."""

    lag_ms: int | None
    """How far the slowest region's watermark was behind its last batch."""
    lag_ms_per_second: float | None
    """By how much the lag changes; negative: it shrinks."""
    backlog_rows: int | None
    """Rows that sources had not read; null: no source counts them."""
    backlog_rows_per_second: float | None
    trend: Trend
    caught_up_in_ms: int | None
    """0: the job has caught up; null: it is not known to catch up."""


OperationKind = Literal[
    "savepoint",
    "stop",
    "cancel",
    "rescale",
    "upgrade",
]


OperationStatus = Literal[
    "in_progress",
    "completed",
    "failed",
    "rolled_back",
]


class PhaseResponse(TypedDict):
    name: str
    started_at: str
    ended_at: str | None
    detail: str | None


FromTo = TypedDict(
    "FromTo",
    {
        "from": int,
        "to": int,
    },
)


KeyGroupMove = TypedDict(
    "KeyGroupMove",
    {
        "vertex": str,
        # The subtask that had them.
        "from": int,
        # The subtask that has them.
        "to": int,
        "key_groups": list[int],
    },
)


class JobChanged(TypedDict):
    """The result of a rescale or an upgrade."""

    savepoint: str | None
    """Null: only `meta` changed, and the job ran on."""
    path: str | None
    parallelism: FromTo
    graph_revision: FromTo
    key_groups_moved: int
    moves: list[KeyGroupMove]


class SavepointMade(TypedDict):
    """The result of an operation that took a savepoint."""

    savepoint: str
    path: str


class OperationResponse(TypedDict):
    id: str
    job: str
    kind: OperationKind
    status: OperationStatus
    phases: list[PhaseResponse]
    result: JobChanged | SavepointMade | None
    """Null until the savepoint of the operation is complete."""
    error: str | None
    created_at: str
    ended_at: str | None


class OperationList(TypedDict):
    items: list[OperationResponse]
    next: str | None


class JobState(TypedDict):
    jobid: str
    state: JobStatus


class RescaleConfig(TypedDict):
    """What Headgate does not wait for is 0."""

    rescaleHistoryMax: int
    schedulerExecutionMode: None
    submissionResourceWaitTimeoutInMillis: int
    submissionResourceStabilizationTimeoutInMillis: int
    slotIdleTimeoutInMillis: int
    executingCooldownTimeoutInMillis: int
    executingResourceStabilizationTimeoutInMillis: int
    maximumDelayForTriggeringRescaleInMillis: int
    rescaleOnFailedCheckpointCount: int


class ParallelismBounds(TypedDict):
    minParallelism: int
    parallelism: int
    maxParallelism: int


class RescaledVertex(TypedDict):
    jobVertexId: str
    jobVertexName: str
    slotSharingGroupId: str
    slotSharingGroupName: str
    requiredParallelisms: ParallelismBounds
    desiredParallelism: int
    sufficientParallelism: int
    preRescaleParallelism: int
    postRescaleParallelism: int | None
    """Null: the rescale is under way."""


class ResourceProfile(TypedDict):
    cpuCores: float
    taskHeapMemory: int
    """Mebibytes."""
    taskOffHeapMemory: int
    managedMemory: int
    networkMemory: int
    extendedResources: dict[str, float]


class RescaledSlots(TypedDict):
    slotSharingGroupId: str
    slotSharingGroupName: str
    desiredSlots: int
    minimalRequiredSlots: int
    preRescaleSlots: int
    postRescaleSlots: int | None
    requestResourceProfile: ResourceProfile
    acquiredResourceProfile: ResourceProfile


class SchedulerState(TypedDict):
    """A phase of the operation."""

    state: str
    enterTimestampInMillis: int
    leaveTimestampInMillis: int | None
    """Null: the phase goes on."""
    durationInMillis: int | None
    stringifiedException: str | None


class RescaleDetails(TypedDict):
    rescaleUuid: str
    """The operation."""
    resourceRequirementsUuid: str
    rescaleAttemptId: int
    vertices: dict[str, RescaledVertex]
    slots: dict[str, RescaledSlots]
    schedulerStates: list[SchedulerState]
    startTimestampInMillis: int
    endTimestampInMillis: int | None
    terminalState: Literal["COMPLETED", "FAILED", "IGNORED"] | None
    """Null: the rescale is under way."""
    triggerCause: Literal["UPDATE_REQUIREMENT"]
    terminatedReason: Literal["SUCCEEDED", "EXCEPTION_OCCURRED", "JOB_CANCELED"] | None


RescaleHistory = list[RescaleDetails]


class RescaleCounts(TypedDict):
    ignored: int
    inProgress: int
    completed: int
    failed: int


class LatestRescales(TypedDict):
    completed: RescaleDetails | None
    failed: RescaleDetails | None
    ignored: RescaleDetails | None


class RescalesOverview(TypedDict):
    rescalesCounts: RescaleCounts
    latest: LatestRescales


class RescalesSummary(TypedDict):
    rescalesCounts: RescaleCounts
    rescalesDurationStatsInMillis: FigureStatistics
    completedRescalesDurationStatsInMillis: FigureStatistics
    ignoredRescalesDurationStatsInMillis: FigureStatistics
    failedRescalesDurationStatsInMillis: FigureStatistics


class Bounds(TypedDict):
    lowerBound: NotRequired[int]
    upperBound: int


class VertexRequirements(TypedDict):
    parallelism: Bounds


class Requirements(TypedDict):
    """Bounds of the parallelism, by task id."""


class ChangedField(TypedDict):
    vertex: str | None
    """Null: the change is in the graph itself."""
    field: str
    """Empty: the whole vertex was added or removed."""
    before: Any
    after: Any


class RevisionItem(TypedDict):
    """What one upgrade or rescale changed."""

    operation: str
    kind: OperationKind
    at: str
    revision: FromTo
    parallelism: FromTo
    needs_restart: bool
    """False: only `meta` changed, and the job ran on."""
    changes: list[ChangedField]


class RevisionList(TypedDict):
    revision: int
    """The present revision, and its parallelism."""
    parallelism: int
    submitted_at: str
    items: list[RevisionItem]
    """The newest first."""


class SeriesResponse(TypedDict):
    """The series of one region: a list for each figure, with one element for each bin."""

    region: str
    at: list[str]
    """The beginning of the bin."""
    input_rows_per_second: list[float]
    output_rows_per_second: list[float]
    batches: list[int]
    batch_ms: list[float | None]
    """Duration of a batch, on average; null: no batch ran."""
    phases_ms: dict[str, list[float | None]]
    """Time that a batch spent in each phase, on average."""
    busy: list[float]
    """Share of the time in which batches ran, 0 to 1."""
    state_rows: list[int]
    state_bytes: list[int]
    lag_ms: list[int | None]
    backlog_rows: list[int | None]
    """Rows that sources had not read; null: no source counts them."""


class SamplesResponse(TypedDict):
    since: str
    until: str
    step_ms: int
    regions: list[SeriesResponse]


class SinkColumnResponse(TypedDict):
    name: str
    type: str
    """In Spark's DDL."""


class SinkRowsResponse(TypedDict):
    vertex: str
    origin: str
    """What was read: batches, a version of a table, the ends of a topic's partitions."""
    columns: list[SinkColumnResponse]
    """Empty: the job has not written any rows yet."""
    rows: list[dict[str, Any]]
    """Rows of the newest output, in no particular order. Long texts are cut off."""


class ColumnResponse(TypedDict):
    name: str
    type: str
    """In Spark's DDL."""
    spark_name: str


class StateResponse(TypedDict):
    region: str
    vertex: str
    name: str
    operator: str
    """Spark's name of the stateful operator."""
    subtasks: int
    key_schema: str
    """Spark DDL."""
    value_schema: str
    """Spark DDL."""
    key: list[ColumnResponse]
    value: list[ColumnResponse]


class StateList(TypedDict):
    checkpoint: int
    """The number of the checkpoint that was read."""
    savepoint: str | None
    """The id of the savepoint, where a savepoint was read."""
    completed_at: str
    items: list[StateResponse]
    next: str | None


class RowResponse(TypedDict):
    checkpoint: int
    key: dict[str, Any]
    value: dict[str, Any]
    key_group: int | None
    """Null: the vertex has no key."""
    subtask: int


class RowPage(TypedDict):
    checkpoint: int
    """The number of the checkpoint that was read."""
    savepoint: str | None
    """The id of the savepoint, where a savepoint was read."""
    completed_at: str
    region: str
    vertex: str
    name: str
    items: list[RowResponse]
    next: str | None


class KeyGroupResponse(TypedDict):
    key_group: int | None
    subtask: int
    rows: int
    bytes: int
    """Size of keys and values as Spark serialises them."""


class SkewResponse(TypedDict):
    """Rows or bytes of the largest group, divided by the mean of all groups including empty groups;
    null: there are no rows."""

    rows: float | None
    bytes: float | None


class KeyGroupHistogram(TypedDict):
    checkpoint: int
    """The number of the checkpoint that was read."""
    savepoint: str | None
    """The id of the savepoint, where a savepoint was read."""
    completed_at: str
    region: str
    vertex: str
    name: str
    max_parallelism: int
    groups: list[KeyGroupResponse]
    """The groups that have rows."""
    empty_groups: int
    skew: SkewResponse


class KeyResponse(TypedDict):
    """The rows of a key. Where there is exactly one row, its fields are also at the top level."""

    checkpoint: int
    """The number of the checkpoint that was read."""
    savepoint: str | None
    """The id of the savepoint, where a savepoint was read."""
    completed_at: str
    region: str
    vertex: str
    name: str
    items: list[RowResponse]
    next: str | None
    key: dict[str, Any] | None
    value: dict[str, Any] | None
    key_group: int | None
    subtask: int | None


Desired = Literal[
    "running",
    "paused",
    "cancelled",
]


AttemptStatus = Literal[
    "launching",
    "starting",
    "running",
    "cancelling",
    "finished",
    "cancelled",
    "failed",
]


class RunnerResponse(TypedDict):
    id: str
    host: str
    pid: int | None
    process: str
    """The process that serves the runner: the id of the first runner that it served, or of a shared
    process."""
    is_shared: bool
    """Whether the process serves runners of other jobs at the same time."""


class AccumulatorValue(TypedDict):
    merge: Literal["sum", "lowest", "highest"]
    value: int | float


class LoopProgress(TypedDict):
    """The progress of a loop in a batch job."""

    vertex: str
    iteration: int
    """Rounds done."""
    max_iterations: int
    rows: int
    """Rows that the last round produced or, in a `delta_iterate`, left in the workset."""
    duration_ms: int
    """Of the last round."""
    is_converged: bool
    is_running: bool


class PartitionLag(TypedDict):
    """How far a source is behind the end of one partition of its input."""

    partition: str
    """In Kafka the topic and the number of the partition: `bids-0`."""
    position: int
    """The offset of the first record that was not read."""
    end: int
    """The offset after the last record."""
    rows: int
    """Records that were not read."""
    seconds: float | None
    """The age of the first record that was not read, by its timestamp, as measured at the last
    checkpoint; 0: all records were read; None: unknown."""


class SourceProgress(TypedDict):
    """What Spark last reported about a source of a region."""

    vertex: str
    input_rows_per_second: float
    processed_rows_per_second: float
    backlog_rows: int | None
    """Rows that are available and not read yet; None: the source does not report it."""
    lags: list[PartitionLag]
    """Of a source that has partitions, such as Kafka."""
    unreadable_rows: int
    """Records that this attempt could not decode."""


class OperatorProgress(TypedDict):
    """What Spark last reported about a stateful operator of a region."""

    vertex: str
    operator: str
    """Spark's name of the operator."""
    updated_rows: int
    """In the last batch."""
    dropped_rows: int
    """Rows dropped in the last batch, because they were later than the watermark allows."""
    state_rows: int
    """0 where Spark does not count them."""
    state_bytes: int
    """Of memory."""
    commit_ms: int


class SubtaskProgress(TypedDict):
    """What Spark measured of the tasks of one subtask, since the attempt began; None: Spark does
    not measure it. Rates are those of the last minute."""

    vertex: str
    """The first vertex of the task."""
    subtask: int | None
    """None: the task as a whole, because Spark's partitions are not its subtasks: a batch of a
    source has as many partitions as there is input."""
    records_in: int | None
    """Rows read from a source or a shuffle."""
    records_out: int | None
    """Rows written to a shuffle or a sink."""
    bytes_in: int | None
    bytes_out: int | None
    busy_ms: int
    """Run time of the tasks."""
    backpressured_ms: int
    """Time for which all tasks of a batch were done and the sink was not."""
    records_in_per_second: float | None
    records_out_per_second: float | None
    bytes_in_per_second: float | None
    bytes_out_per_second: float | None
    busy_ms_per_second: float
    backpressured_ms_per_second: float


class RegionProgress(TypedDict):
    """The progress of a region, and what it has done since its attempt began."""

    region: str
    batch: int | None
    """The last committed batch."""
    batches: int
    """Batches that this attempt has committed."""
    is_active: bool
    is_idle: bool
    """Whether the region has looked for input since its last batch and found none."""
    input_rows: int
    """Rows that this attempt has read so far."""
    output_rows: int
    """Rows that this attempt has given to the sink so far."""
    input_rows_per_second: float
    processed_rows_per_second: float
    batch_duration_ms: int
    watermark: str | None
    state_rows: int
    state_bytes: int
    offsets: dict[str, Any]
    """Spark's offset of each source vertex."""
    progressed_at: str | None
    """When the last batch was committed."""
    input_waiting: bool | None
    """Whether there is input that is in no committed batch; None: unknown."""
    batch_started_at: str | None
    """When the current batch began; None: no batch is running."""
    unmoved_ms: int | None
    """How long the region had work and committed nothing; 0: it makes progress, or is idle. A
    duration, so that differences between clocks do not matter."""
    median_batch_ms: int
    """Durations of the last batches with input."""
    accumulators: dict[str, dict[str, AccumulatorValue]]
    """By vertex and name, what users' code added up in committed batches of all attempts."""
    activity: str | None
    """What Spark reports that it is doing."""
    loops: list[LoopProgress]
    """Of a batch job."""
    busy_ms: int
    """Time that this attempt has spent on batches so far."""
    measured_batches: int
    """How many batches `phases_ms` covers."""
    phases_ms: dict[str, int]
    """Time that these batches spent in each phase, by Spark's names: `addBatch`, `walCommit` …"""
    uncheckpointed_rows: int | None
    """Rows read in batches that no completed checkpoint covers; None: not counted."""
    uncheckpointed_busy_ms: int | None
    """Time that these batches took."""
    has_checkpoint_of_attempt: bool
    """Whether a checkpoint was completed since this attempt began."""
    sources: list[SourceProgress]
    operators: list[OperatorProgress]
    subtasks: list[SubtaskProgress]
    """Empty: Spark's tasks cannot be told apart by vertex, or were not measured."""


class CrashCostResponse(TypedDict):
    """What a crash would cost now, if the working directory of the attempt were lost, too."""

    rows: int
    """Rows that were read since the last completed checkpoint and would be read again."""
    replay_ms: int
    """How long their batches took."""
    start_ms: int | None
    """How long the present attempt took to start."""
    is_at_least: bool
    """Whether it may be more, because the attempt continued batches of an earlier attempt that no
    checkpoint covers."""


class StatusResponse(TypedDict):
    status: str
    """Flink's word for `state`, because Flink's clients ask for it at this path."""
    desired: Desired
    observed: AttemptStatus
    """What the newest attempt does."""
    state: JobStatus | Literal["stalled", "degraded"]
    reason: str
    since: str
    running_since: str | None
    attempt: int
    runner: RunnerResponse | None
    region_states: list[RegionProgress]
    """What the runner last reported about each region."""
    restored: list[RestoredRegion]
    """Where each region of the newest attempt started from, and why there."""
    last_checkpoint: LastCheckpoint | None
    restarts: int
    lag: int | None
    """Milliseconds by which the slowest region's watermark was behind its last batch."""
    meta: MetaResponse
    crash_cost: CrashCostResponse | None
    """Null: the job does not run, or its runner does not report it."""


Verdict = Literal[
    "compatible",
    "needs_flag",
    "impossible",
]


Fate = Literal[
    "kept",
    "lost",
    "gained",
]


class VertexState(TypedDict):
    region: str
    vertex: str | None
    """Null: the state is the offsets of the region."""
    fate: Fate


class SparkJudgement(TypedDict):
    region: str
    accepted: bool
    error: str | None


class PlanResponse(TypedDict):
    verdict: Verdict
    reasons: list[str]
    changes: list[ChangedField]
    state: list[VertexState]
    spark: list[SparkJudgement]
    """What Spark answered to the new graph with a copy of the newest checkpoint; empty: there is no
    checkpoint to try."""
    needs_restart: bool
    """False: only `meta` changes, and the job runs on."""


class UpgradeAccepted(TypedDict):
    operation: str


SubtaskAttempt = TypedDict(
    "SubtaskAttempt",
    {
        "subtask": int,
        "status": str,
        # The number of the job's attempt, less 1: Flink counts from 0.
        "attempt": int,
        # The runner's host and process id.
        "endpoint": str,
        "start-time": int,
        # -1: the attempt has not ended.
        "end-time": int,
        "duration": int,
        "metrics": TaskMetrics,
        # The runner; empty: none was launched yet.
        "taskmanager-id": str,
        "status-duration": dict[str, int],
        # The same as `start-time`.
        "start_time": int,
    },
)


AggregatedSubtasks = TypedDict(
    "AggregatedSubtasks",
    {
        "metrics": dict[str, dict[str, int]],
        "status-duration": dict[str, dict[str, int]],
    },
)


class TaskDetails(TypedDict):
    id: str
    name: str
    parallelism: int
    maxParallelism: int
    now: int
    subtasks: list[SubtaskAttempt]
    aggregated: AggregatedSubtasks


TaskAccumulators = TypedDict(
    "TaskAccumulators",
    {
        "id": str,
        "user-accumulators": list[Accumulator],
    },
)


SubtaskBackPressure = TypedDict(
    "SubtaskBackPressure",
    {
        "subtask": int,
        "backpressureLevel": Literal["ok", "low", "high"],
        "ratio": float,
        "idleRatio": float,
        "busyRatio": float,
        # The same as `backpressureLevel`.
        "backpressure-level": str,
    },
)


TaskBackPressure = TypedDict(
    "TaskBackPressure",
    {
        # `deprecated`: nothing was measured, and nothing else is answered.
        "status": Literal["ok", "deprecated"],
        "backpressureLevel": NotRequired[Literal["ok", "low", "high"]],
        "end-timestamp": NotRequired[int],
        "subtasks": NotRequired[list[SubtaskBackPressure]],
        # The same as `backpressureLevel`.
        "backpressure-level": NotRequired[str],
    },
)


class FlameGraph(TypedDict):
    endTimestamp: int
    """-2: the server makes no flame graphs. -3: the task has ended."""
    data: None


SubtaskAccumulators = TypedDict(
    "SubtaskAccumulators",
    {
        "subtask": int,
        "attempt": int,
        "endpoint": str,
        "user-accumulators": list[Accumulator],
    },
)


class AllSubtaskAccumulators(TypedDict):
    id: str
    parallelism: int
    subtasks: list[SubtaskAccumulators]


AttemptAccumulators = TypedDict(
    "AttemptAccumulators",
    {
        "subtask": int,
        "attempt": int,
        "id": str,
        "user-accumulators": list[Accumulator],
    },
)


class SubtaskTimes(TypedDict):
    subtask: int
    endpoint: str
    duration: int
    timestamps: dict[str, int]
    """When the subtask came into each state; 0: it was not in that state."""


class TaskTimes(TypedDict):
    id: str
    name: str
    now: int
    subtasks: list[SubtaskTimes]


TaskOnRunner = TypedDict(
    "TaskOnRunner",
    {
        "endpoint": str,
        "status": str,
        "start-time": int,
        "end-time": int,
        "duration": int,
        "metrics": TaskMetrics,
        "status-counts": dict[str, int],
        "taskmanager-id": str,
        "aggregated": AggregatedSubtasks,
    },
)


class TaskRunners(TypedDict):
    id: str
    name: str
    now: int
    taskmanagers: list[TaskOnRunner]


ClusterOverview = TypedDict(
    "ClusterOverview",
    {
        # Runners whose process is alive.
        "taskmanagers": int,
        "taskmanagers-blocked": int,
        # Tasks that the Spark of all runners runs at the same time.
        "slots-total": int,
        "slots-available": int,
        "slots-free-and-blocked": int,
        "jobs-running": int,
        "jobs-finished": int,
        "jobs-cancelled": int,
        "jobs-failed": int,
        # The version whose REST API this one follows.
        "flink-version": str,
        "flink-commit": str,
        "headgate-version": str,
    },
)


class RunnerItem(TypedDict):
    id: str
    job: str
    attempt: int
    host: str
    pid: int | None
    process: str
    """The process that serves the runner: the id of the first runner that it served, or of a shared
    process."""
    is_shared: bool
    """Whether the process serves runners of other jobs at the same time. Memory is then that of the
    whole process."""
    spark_version: str | None
    launched_at: str
    registered_at: str | None
    heartbeat_at: str | None
    exited_at: str | None
    exit: str | None
    """How the process ended."""
    versions: dict[str, str]
    """Versions of Spark, Python, Java and Headgate, as far as the runner has reported them."""
    slots: int | None
    """Tasks that the runner's Spark runs at the same time."""
    resident_bytes: int | None
    """Memory of all processes of the runner."""
    heap_used_bytes: int | None
    heap_max_bytes: int | None


class RunnerPage(TypedDict):
    items: list[RunnerItem]
    next: str | None


SavepointStatus = Literal[
    "in_progress",
    "completed",
    "failed",
    "disposed",
]


class SavepointRegion(TypedDict):
    """The position of one region of the job."""

    batch: int | None
    offsets: dict[str, Any]
    """Offsets by source vertex, as Spark writes them."""
    watermark: str | None


class SavepointResponse(TypedDict):
    id: str
    path: str
    job: str | None
    """Null: the savepoint was adopted from a plain Spark query."""
    checkpoint: int
    status: SavepointStatus
    graph_revision: int
    parallelism: int
    max_parallelism: int
    regions: dict[str, SavepointRegion]
    """Empty until the savepoint is complete."""
    bytes: int | None
    created_at: str
    completed_at: str | None
    disposed_at: str | None
    failure: str | None
    labels: dict[str, str]
    parent: str | None
    """The state that the job had started from, or the origin of an adopted savepoint."""
    drained: bool
    """Every open window was emitted, and the watermark is at the end of time: a job starts from it
    only with `allow_drained`."""


class SavepointPage(TypedDict):
    items: list[SavepointResponse]
    next: str | None


class ScriptResponse(TypedDict):
    graph: dict[str, Any]
    """For `POST /jobs`."""


class Hardware(TypedDict):
    cpuCores: int
    """-1: unknown, also in the other fields."""
    physicalMemory: int
    freeMemory: int
    managedMemory: int


class MemoryConfiguration(TypedDict):
    """-1: unknown, or a kind of memory that Spark does not have."""

    frameworkHeap: int
    taskHeap: int
    frameworkOffHeap: int
    taskOffHeap: int
    networkMemory: int
    managedMemory: int
    jvmMetaspace: int
    jvmOverhead: int
    totalFlinkMemory: int
    totalProcessMemory: int


class TaskManager(TypedDict):
    id: str
    """The runner."""
    path: str
    dataPort: int
    jmxPort: int
    timeSinceLastHeartbeat: int
    """The time of the last heartbeat, in spite of the name."""
    slotsNumber: int
    freeSlots: int
    assignedTasks: int
    totalResource: ResourceProfile
    freeResource: ResourceProfile
    hardware: Hardware
    memoryConfiguration: MemoryConfiguration
    blocked: bool


class TaskManagers(TypedDict):
    taskmanagers: list[TaskManager]


class AllocatedSlot(TypedDict):
    jobId: str
    resource: ResourceProfile
    assignedTasks: int


class GarbageCollector(TypedDict):
    name: str
    count: int
    time: int


class RunnerMemoryFigures(TypedDict):
    """-1: unknown."""

    heapUsed: int
    heapCommitted: int
    heapMax: int
    nonHeapUsed: int
    nonHeapCommitted: int
    nonHeapMax: int
    directCount: int
    directUsed: int
    directMax: int
    mappedCount: int
    mappedUsed: int
    mappedMax: int
    nettyShuffleMemorySegmentsAvailable: int
    nettyShuffleMemorySegmentsUsed: int
    nettyShuffleMemorySegmentsTotal: int
    nettyShuffleMemoryAvailable: int
    nettyShuffleMemoryUsed: int
    nettyShuffleMemoryTotal: int
    garbageCollectors: list[GarbageCollector]


class TaskManagerDetails(TypedDict):
    id: str
    """The runner."""
    path: str
    dataPort: int
    jmxPort: int
    timeSinceLastHeartbeat: int
    """The time of the last heartbeat, in spite of the name."""
    slotsNumber: int
    freeSlots: int
    assignedTasks: int
    totalResource: ResourceProfile
    freeResource: ResourceProfile
    hardware: Hardware
    memoryConfiguration: MemoryConfiguration
    blocked: bool
    allocatedSlots: list[AllocatedSlot]
    metrics: RunnerMemoryFigures


class TokenResponse(TypedDict):
    """A token without its secret text, which only the answer to its creation contains."""

    name: str
    role: Role
    created_at: str
    expires_at: str | None
    """Null: never."""
    revoked_at: str | None
    last_used_at: str | None
    """Exact to a minute."""
    is_usable: bool
    """Neither revoked nor expired."""


class TokenList(TypedDict):
    items: list[TokenResponse]
    next: str | None


class NewTokenResponse(TypedDict):
    name: str
    role: Role
    created_at: str
    expires_at: str | None
    """Null: never."""
    revoked_at: str | None
    last_used_at: str | None
    """Exact to a minute."""
    is_usable: bool
    """Neither revoked nor expired."""
    token: str
    """The secret text. The server stores only its hash, so no other answer contains it."""


WebhookEvent = Literal[
    "state_changed",
    "restart",
    "checkpoint_failed",
    "rescaled",
    "upgraded",
    "savepoint_completed",
    "stalled",
    "degraded",
    "recovered",
    "test",
]


class WebhookResponse(TypedDict):
    """A webhook, without its secret and without the path of its URL, which often is a secret."""

    name: str
    url: str
    """Scheme and host; `/…` stands for the path."""
    on: list[WebhookEvent]
    job: str | None
    """A pattern of job names, or the id of a job; null: all jobs."""
    secret: str | None
    """The reference to the secret, such as `${secret:hooks}`; null: it is in the database."""
    created_at: str
    pending: int
    """Deliveries that are not sent yet, or are tried again."""
    given_up: int
    """Deliveries of the last days that were given up."""
    last_delivered_at: str | None


class WebhookList(TypedDict):
    items: list[WebhookResponse]
    next: str | None


class NewWebhookResponse(TypedDict):
    name: str
    url: str
    """Scheme and host; `/…` stands for the path."""
    on: list[WebhookEvent]
    job: str | None
    """A pattern of job names, or the id of a job; null: all jobs."""
    secret: str | None
    """The reference to the secret, such as `${secret:hooks}`; null: it is in the database."""
    created_at: str
    pending: int
    """Deliveries that are not sent yet, or are tried again."""
    given_up: int
    """Deliveries of the last days that were given up."""
    last_delivered_at: str | None
    made_secret: str | None
    """The key that the server made, for the receiver. No other answer contains it. Null: the
    request named a secret."""


DeliveryStatus = Literal[
    "pending",
    "delivered",
    "given_up",
]


class DeliveryItem(TypedDict):
    """A message to a webhook."""

    id: int
    delivery: str
    """The idempotency id."""
    event: str
    job: str | None
    job_name: str | None
    sequence: int | None
    """The id of the history entry."""
    status: DeliveryStatus
    tries: int
    created_at: str
    tried_at: str | None
    next_try_at: str | None
    ended_at: str | None
    answer_status: int | None
    """Of the last try."""
    error: str | None
    took_ms: int | None


class DeliveryPage(TypedDict):
    items: list[DeliveryItem]
    next: int | None
    """The `before` of the next page; null: this is the last page."""


class WebhookTest(TypedDict):
    """How a sample was taken."""

    delivery: str
    """The idempotency id of the sample."""
    is_delivered: bool
    status: int | None
    """The status that the receiver answered; null: there was no answer."""
    answer: str | None
    """The beginning of the answer."""
    error: str | None
    took_ms: int


class WhoAmI(TypedDict):
    name: str
    """The name of the token; `anonymous` for a caller without a token."""
    role: Role
    covers: list[Role]
    """The roles whose rights the caller has."""
    needs_token: bool
    """Whether this server accepts only requests with a token."""
    expires_at: str | None
    """When the token expires; null: never, or no token was sent."""


class Problem(TypedDict):
    """Problem details of RFC 9457, as `application/problem+json`."""

    type: str
    """`/problems/` and the name of the error."""
    title: str
    status: int
    detail: str
    """What is wrong, with which value, and what to do."""
    instance: str
    """The path that was asked for."""
    faults: NotRequired[list[GraphFault]]
    """All faults at once. Only where a job graph has faults, or where a request does not have the
    form that the route requires."""


class HistoryEvent(TypedDict):
    """An entry of the history; the event's type is its `kind`, the event's id its `id`."""

    id: int
    at: str
    kind: str
    cause: str
    actor: Actor
    actor_name: str | None
    """For a client: the name of its token, or `anonymous`."""
    attempt: int | None
    checkpoint: int | None
    detail: dict[str, Any]
    """Details, which depend on the kind of entry."""
    job: str
    name: str
    """Of the job."""
    state: JobStatus | Literal["stalled", "degraded"]
    """The job's state when the event is sent."""


class ProgressEvent(TypedDict):
    """`progress`: what the job's runner last reported about each region."""

    job: str
    name: str
    state: JobStatus | Literal["stalled", "degraded"]
    attempt: int
    at: str
    regions: list[RegionProgress]


class ProgressLine(TypedDict):
    """The progress of one job."""

    job: str
    state: JobStatus | Literal["stalled", "degraded"]
    attempt: int
    at: str
    input_rows: int
    output_rows: int
    is_idle: bool
    lag: int | None


class ProgressSummaryEvent(TypedDict):
    """`progress_summary`: a line for each running job."""

    jobs: list[ProgressLine]


class CheckpointEvent(TypedDict):
    """`checkpoint_triggered` and `checkpoint_ack`: the progress of a checkpoint."""

    job: str
    at: str
    name: str
    attempt: int
    checkpoint: int
    checkpoint_kind: CheckpointKind
    status: CheckpointStatus
    acked: int
    awaited: int
    subtasks: NotRequired[list[str]]
    """`region/vertex/number` of the subtasks that are awaited, or that have just acked; absent
    where there are very many."""
