"""The protocol between a JobManager and its runners, version 2.

All calls are made by the runner:

    POST /v1/runners/{runner}/register     RunnerHello      -> RunnerWelcome
    GET  /v1/runners/{runner}/directives?after=N&wait_ms=M  -> Directives (long poll)
    POST /v1/runners/{runner}/heartbeat    Heartbeat        -> HeartbeatReply
    POST /v1/runners/{runner}/acks         BarrierAcks      -> BarrierReply
    POST /v1/runners/{runner}/declines     BarrierDeclined  -> BarrierReply
    POST /v1/runners/{runner}/attempt      AttemptReport    -> AttemptReply

Every call carries `Authorization: Bearer <the runner's secret>`. Every message about a job carries
its attempt, the fencing token, and with it `Headgate-Attempt-Token: <token>`, the token that came
with the directive to run that attempt. Every call may be repeated: a repetition changes nothing and
gets the same answer. Directives of a runner have ascending numbers; `after` is the number of the
last directive that the runner has taken, so the runner just repeats a poll whose answer was lost.

Each side may be one version older or newer than the other (ADR 19). So every call and every answer
names its version in the header `Headgate-Protocol`, `versions.py` writes a message in the form of
the other side's version, and `received` reads a message as the rules below say:

    unknown field                    ignored
    unknown directive                skipped by the runner, which logs it and goes on
    unknown kind of report           refused, and nothing is recorded
    unknown reason of a decline      taken for "internal"
    unknown kind of failure          taken for "infrastructure"
    unknown outcome of acks          as if the answer were lost: `CheckpointCompleted` may follow
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self, get_args
from uuid import UUID

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from jobmanager.core.progress import RestoredRegion
from jobmanager.protocol.progress_json import ReadableProgress, readable_restored

PROTOCOL_VERSION = 2
PROTOCOL_HEADER = "Headgate-Protocol"
"""The version of the program that sends the call or the answer. Version 1 does not send it."""
ATTEMPT_TOKEN = "Headgate-Attempt-Token"
"""The header."""
_RECEIVED = object()
"""The validation context of a message from the other side."""


Number = Annotated[int, Field(ge=-(2**62), le=2**62)]
"""What runners say in numbers. Postgres could not store a greater one, and acks of several runners
are stored together."""


class Message(BaseModel):
    """A message is strict when it is made, and tolerant of what is newer when it is received."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def received(cls, content: str | bytes) -> Self:
        """Read a message of the other side, as JSON. Raises `ValidationError`."""
        return cls.model_validate_json(content, extra="ignore", context=_RECEIVED)

    @classmethod
    def received_value(cls, value: Any) -> Self:
        """Read a message of the other side, as decoded JSON. Raises `ValidationError`."""
        return cls.model_validate(value, extra="ignore", context=_RECEIVED)


def _unless_known(known: Sequence[str], otherwise: str) -> BeforeValidator:
    """Read a received value that is newer than this program as `otherwise`."""

    def read(value: Any, info: ValidationInfo) -> Any:
        is_newer = info.context is _RECEIVED and isinstance(value, str) and value not in known
        return otherwise if is_newer else value

    return BeforeValidator(read)


class RunnerHello(Message):
    protocol: int
    host: str
    pid: int
    spark_version: str
    python_version: str | None = None
    headgate_version: str | None = None


class RunnerWelcome(Message):
    heartbeat_interval_ms: int
    poll_wait_ms: int
    urls: list[str] = []
    """The URLs of the JobManagers, the leader first. A runner can use any of them."""


# ── directives ────────────────────────────────────────────────────────────────


class CheckpointRef(Message):
    """A completed checkpoint that an attempt may start from."""

    number: int
    manifest: str
    """Where its manifest is, relative to the job's directory in storage."""


class RestorePointMessage(Message):
    """A savepoint, or a checkpoint of another job, that a job starts from."""

    root: str
    """The URI that the locations in its manifest are relative to."""
    manifest: str
    """The manifest, relative to `root`."""
    name: str
    """Its name in messages: `savepoint 3f2a…`, `checkpoint 7 of job 9c1b…`."""
    allow_non_restored_state: bool = False
    """Whether state of vertices that the graph no longer has may be dropped."""


class SavepointTarget(Message):
    """Where to write a savepoint: a directory that does not exist yet."""

    id: UUID
    directory: str
    """A URI: `file:`, or elsewhere, such as `s3://bucket/savepoints/savepoint-3f2a…`."""


class PathRoots(Message):
    """What a job may name: paths and URIs, each with all that is below."""

    graphs: list[str]
    """For what the graph names."""
    snapshots: list[str]
    """For savepoints and what the job starts from."""


class ConnectorJar(Message):
    """A jar that a job's connectors need, on the machine of the runner."""

    path: str
    sha256: str
    """Of the file when it was installed: another file is not used."""


class Run(Message):
    kind: Literal["run"] = "run"
    token: str | None = Field(None, repr=False)
    """What is said of the attempt carries it. None: by a JobManager of an older version."""
    graph: dict[str, Any]
    """The job-graph document as submitted: the runner parses it as the JobManager did."""
    parallelism: int
    spark_master: str
    storage: str
    """Root of all jobs' storage, a file: URI."""
    checkpoints: str | None = None
    """Root of all jobs' pools and checkpoints, a URI. None: they are in `storage`."""
    data_root: str
    """What relative paths in the graph are relative to."""
    allowed_paths: PathRoots | None = None
    """None: any path. The JobManager has looked; a symbolic link may have been made since."""
    jars: list[ConnectorJar] = []
    """What Spark needs beside its own jars. A session that has more of them can be used."""
    secrets_dir: str | None = None
    """Where the runner finds the files of secrets, a file: URI."""
    secrets_command: str | None = None
    """What the runner runs, with the name, for a secret that is nowhere else."""
    checkpoint: CheckpointRef | None
    """The latest completed checkpoint, if there is one."""
    restore_point: RestorePointMessage | None = None
    """What the job was started from, or last rescaled or upgraded from. It is used only while no
    attempt from `base_attempt` on has a committed batch or a checkpoint: the job never goes back
    to it silently. If it has another parallelism, its state is repartitioned.
    """
    base_attempt: int = 1
    """State of attempts before this attempt is not used for a restore: the job was rescaled,
    upgraded or rolled back since, from `restore_point`.
    """
    fence_after_ms: int | None = None
    """How long the attempt may go on while no JobManager answers heartbeats, if it has a sink
    that cannot be fenced; None: for ever. Other attempts go on in any case."""


class Barrier(Message):
    kind: Literal["barrier"] = "barrier"
    checkpoint: int
    expires_at: AwareDatetime
    """By the JobManager's clock: to be shown."""
    time_left_ms: int | None = None
    """Until then, when the directive was sent: the runner's wall clock may be another."""
    savepoint: SavepointTarget | None = None
    """For a savepoint: all files and the manifest go into this directory."""
    awaits_new_batch: bool = False
    """Whether the barrier is the boundary after the first batch of this attempt, in each region
    that has input: a rescaled or upgraded job has then proved itself.
    """


class Stop(Message):
    """End with a savepoint: every region finishes its current batch and starts no other; then the
    savepoint is written and acked like a barrier; then the runner sends `AttemptStoppedReport`.

    If no savepoint can be written, the barrier is declined and the attempt fails; the job is
    restarted from where it was, and nothing is lost.
    """

    kind: Literal["stop"] = "stop"
    checkpoint: int
    expires_at: AwareDatetime
    time_left_ms: int | None = None
    """As in `Barrier`."""
    savepoint: SavepointTarget
    drain: bool
    """First advance the watermark to the end of time, so that every open window is emitted."""
    keep_runner: bool = False
    """Stay after `AttemptStoppedReport`, with the Spark session open, for the next `Run`."""


class CheckpointCompleted(Message):
    """All subtasks acked: output that waits for this checkpoint may become visible."""

    kind: Literal["checkpoint_completed"] = "checkpoint_completed"
    checkpoint: int


class CheckpointAborted(Message):
    kind: Literal["checkpoint_aborted"] = "checkpoint_aborted"
    checkpoint: int
    reason: str


class Cancel(Message):
    """End the attempt after the current batch, or at the deadline in the middle of the batch."""

    kind: Literal["cancel"] = "cancel"
    grace_ms: int
    keep_runner_ms: int | None = None
    """The job is paused: stay afterwards, with the Spark session open, and wait this long for the
    next `Run`. None: the runner is not needed any more. A runner that cannot stay just ends."""


class Exit(Message):
    """The runner has nothing more to do: end the process."""

    kind: Literal["exit"] = "exit"
    reason: str


DirectiveBody = Annotated[
    Run | Barrier | Stop | CheckpointCompleted | CheckpointAborted | Cancel | Exit,
    Field(discriminator="kind"),
]


class UnknownDirective(Message):
    """A directive of a newer JobManager that this runner cannot read. It is never sent."""

    kind: str
    fault: str


def _read_directive(
    value: Any, read: ValidatorFunctionWrapHandler, info: ValidationInfo
) -> DirectiveBody | UnknownDirective:
    """Read a directive alone: a directive that cannot be read must not hide the others."""
    try:
        known: DirectiveBody = read(value)
        return known
    except ValidationError as error:
        if info.context is not _RECEIVED or not isinstance(value, dict):
            raise
        faults = "; ".join(
            f"{'.'.join(str(part) for part in one['loc'])}: {one['msg']}"
            for one in error.errors(include_url=False, include_input=False)
        )
        return UnknownDirective(kind=str(value.get("kind")), fault=faults)


class Directive(Message):
    id: int
    job: UUID | None
    attempt: int | None
    body: Annotated[DirectiveBody | UnknownDirective, WrapValidator(_read_directive)]


class Directives(Message):
    directives: list[Directive]


# ── what a runner reports ─────────────────────────────────────────────────────


class CollectorFigures(Message):
    """A garbage collector of a JVM."""

    name: str
    count: Number
    time_ms: Number


class JvmFigures(Message):
    """What a runner's JVM says of itself; None: it does not say."""

    heap_committed_bytes: Number | None = None
    non_heap_used_bytes: Number | None = None
    non_heap_committed_bytes: Number | None = None
    non_heap_max_bytes: Number | None = None
    metaspace_used_bytes: Number | None = None
    metaspace_committed_bytes: Number | None = None
    metaspace_max_bytes: Number | None = None
    direct_count: Number | None = None
    direct_used_bytes: Number | None = None
    direct_capacity_bytes: Number | None = None
    mapped_count: Number | None = None
    mapped_used_bytes: Number | None = None
    mapped_capacity_bytes: Number | None = None
    garbage_collectors: list[CollectorFigures] = []
    threads: Number | None = None
    classes_loaded: Number | None = None
    classes_unloaded: Number | None = None
    cpu_time_ns: Number | None = None
    """Spent by the runner's processes."""
    cpu_cores: Number | None = None
    physical_bytes: Number | None = None
    """Memory of the machine."""


class RunnerMemory(Message):
    resident_bytes: Number
    """Memory of the runner's process and all processes it started."""
    heap_used_bytes: Number | None = None
    heap_max_bytes: Number | None = None
    """Memory of the JVM; None: there is no JVM."""
    java_version: str | None = None
    slots: Number | None = None
    """Tasks that Spark runs at the same time."""
    jvm: JvmFigures | None = None


class RunnerThread(Message):
    """What a thread of a runner does."""

    name: str
    text: str
    """Its state, and its stack."""


class Heartbeat(Message):
    job: UUID | None
    attempt: Number | None
    regions: ReadableProgress
    memory: RunnerMemory | None = None
    data_moved: Number | None = None
    """While the attempt starts: how much data the runner's processes have read and written, in
    steps of 16 MiB. None: it runs, or there is no attempt."""
    threads: list[RunnerThread] | None = None
    """If the answer to the last heartbeat asked for them."""


class HeartbeatReply(Message):
    superseded: bool
    """True: this attempt was replaced. Stop at once, publish nothing."""
    heartbeat_interval_ms: Number | None = None
    """How long to wait before the next heartbeat: longer if there are many runners."""
    urls: list[str] = []
    """The same as in `RunnerWelcome`, but up to date."""
    wants_threads: bool = False
    """True: send the next heartbeat at once, and with `threads`."""


class SubtaskAck(Message):
    region: str
    vertex: str
    subtask: Number
    kind: Literal["state", "offsets", "sink"]
    pointer: str | None = None
    """state: this subtask's newest state file, relative to the job's directory in storage."""
    version: Number | None = None
    """state: Spark's state version. sink: the last batch it committed."""
    bytes: Number = 0
    key_groups: list[Number] = []
    offsets: Any = None
    watermark: AwareDatetime | None = None


class BarrierAcks(Message):
    """All acks of one attempt for one barrier: sent when its manifest is durable."""

    job: UUID
    attempt: Number
    checkpoint: Number
    manifest: str
    batches: dict[str, Number | None]
    """By region, the batch whose commit was the barrier; None: no batch was committed yet."""
    bytes: Number
    new_bytes: Number
    """Bytes that this checkpoint added to the snapshot pool."""
    acks: list[SubtaskAck]
    waited_ms: dict[str, Number] = {}
    """By region, from the barrier to the end of the batch that was under way; missing: unknown."""
    snapshot_ms: Number | None = None
    """From the last of these ends until the manifest was durable; None: unknown."""
    has_new_batches: bool = False
    """Whether each region has committed a batch in this attempt, or has found no input: the runner
    was asked to await that.
    """


DeclineReason = Literal["not_running", "no_boundary_in_time", "storage", "superseded", "internal"]


class BarrierDecline(Message):
    job: UUID
    attempt: Number
    checkpoint: Number
    region: str | None
    reason: Annotated[DeclineReason, _unless_known(get_args(DeclineReason), "internal")]
    detail: str


class BarrierReply(Message):
    outcome: Literal["recorded", "completed", "already_recorded", "too_late", "superseded"]


FailureKindName = Literal[
    "invalid_job", "user_code", "data", "infrastructure", "out_of_memory", "lost"
]


class FailureReport(Message):
    kind: Annotated[FailureKindName, _unless_known(get_args(FailureKindName), "infrastructure")]
    is_restartable: bool
    message: str
    """The root cause, in one line."""
    stack: str
    region: str | None = None


class RepartitionedRegion(Message):
    """A region whose state Spark has rewritten for another parallelism."""

    region: str
    from_parallelism: Number
    to_parallelism: Number
    batch: Number
    """The batch as which Spark wrote the new state."""
    duration_ms: Number


class AttemptPrepared(Message):
    """Every region is restored and compiled; the queries start next."""

    event: Literal["prepared"] = "prepared"
    repartitioned: list[RepartitionedRegion] = []


class AttemptRunning(Message):
    event: Literal["running"] = "running"
    restored: Annotated[list[RestoredRegion], BeforeValidator(readable_restored)]


class AttemptInputEnded(Message):
    """All input was read, and output waits for a checkpoint that covers it, the final checkpoint:
    the attempt finishes when it is told that this checkpoint is complete. The JobManager triggers
    it at once; an older JobManager refuses the report, and its next periodic checkpoint does.
    """

    event: Literal["input_ended"] = "input_ended"


class AttemptFinishedReport(Message):
    event: Literal["finished"] = "finished"


class AttemptStoppedReport(Message):
    """The attempt ended between two batches, after its savepoint was acked."""

    event: Literal["stopped"] = "stopped"
    savepoint: UUID


class AttemptCancelledReport(Message):
    event: Literal["cancelled"] = "cancelled"
    detail: str


class AttemptFailedReport(Message):
    event: Literal["failed"] = "failed"
    failure: FailureReport


EndingReport = (
    AttemptFinishedReport | AttemptStoppedReport | AttemptCancelledReport | AttemptFailedReport
)
"""The end of an attempt: nothing of it runs any more when it is reported."""
ProgressReport = AttemptPrepared | AttemptRunning | AttemptInputEnded
"""The attempt goes on."""
ReportBody = (
    AttemptPrepared
    | AttemptRunning
    | AttemptInputEnded
    | AttemptFinishedReport
    | AttemptStoppedReport
    | AttemptCancelledReport
    | AttemptFailedReport
)
_REPORTS = frozenset(one.model_fields["event"].default for one in get_args(ReportBody))


def _known_report(value: Any) -> Any:
    event = value.get("event") if isinstance(value, dict) else None
    if isinstance(event, str) and event not in _REPORTS:
        raise ValueError(
            f"reports of the kind {event!r} are not known to this program, which speaks "
            f"version {PROTOCOL_VERSION} of the runner protocol; nothing was recorded"
        )
    return value


class AttemptReport(Message):
    job: UUID
    attempt: Number
    at: AwareDatetime
    body: Annotated[
        Annotated[ReportBody, Field(discriminator="event")], BeforeValidator(_known_report)
    ]


class AttemptReply(Message):
    superseded: bool
