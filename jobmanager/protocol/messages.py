"""The wire between a JobManager and its runners, version 1.

A runner only ever calls outward:

    POST /v1/runners/{runner}/register     RunnerHello      -> RunnerWelcome
    GET  /v1/runners/{runner}/directives?after=N&wait_ms=M  -> Directives (long poll)
    POST /v1/runners/{runner}/heartbeat    Heartbeat        -> HeartbeatReply
    POST /v1/runners/{runner}/acks         BarrierAcks      -> BarrierReply
    POST /v1/runners/{runner}/declines     BarrierDeclined  -> BarrierReply
    POST /v1/runners/{runner}/attempt      AttemptReport    -> AttemptReply

Every call carries `Authorization: Bearer <runner token>`, and every message
about a job its attempt: the fencing token. All of them may be repeated: a
repetition changes nothing and gets the same answer. Directives are numbered in
one ascending sequence a runner; `after` is the last one it has taken, so a lost
answer is simply asked for again.
"""

from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from jobmanager.core.progress import RegionProgress, RestoredRegion

PROTOCOL_VERSION = 1


class Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


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
    """Where JobManagers are reached, the leader first. Any of them will do."""


# ── directives ────────────────────────────────────────────────────────────────


class CheckpointRef(Message):
    """A completed checkpoint an attempt may start from."""

    number: int
    manifest: str
    """Where its manifest is, relative to the job's directory in storage."""


class RestorePointMessage(Message):
    """A savepoint, or a checkpoint of another job, that a job starts from."""

    root: str
    """URI that the locations in its manifest are relative to."""
    manifest: str
    """The manifest, relative to `root`."""
    name: str
    """What to call it in texts: `savepoint 3f2a…`, `checkpoint 7 of job 9c1b…`."""
    allow_non_restored_state: bool = False
    """Whether state of vertices that the graph no longer has may be left behind."""


class SavepointTarget(Message):
    """Where a savepoint is to be written: a directory that does not exist yet."""

    id: UUID
    directory: str
    """A URI: `file:`, or elsewhere, such as `s3://bucket/savepoints/savepoint-3f2a…`."""


class Run(Message):
    kind: Literal["run"] = "run"
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
    checkpoint: CheckpointRef | None
    """The latest completed one, if any."""
    restore_point: RestorePointMessage | None = None
    """What the job was started from, or last rescaled or upgraded from. Only looked at while no
    attempt from `base_attempt` on has a committed batch or a checkpoint: the job never goes
    back to it silently. Where it has another parallelism its state is repartitioned."""
    base_attempt: int = 1
    """What attempts before this one left behind is not gone back to: the job was rescaled,
    upgraded or rolled back since, and `restore_point` is where that was."""
    fence_after_ms: int | None = None
    """How long the attempt may go on while no JobManager answers heartbeats, if it has a sink
    that cannot be fenced; None: for ever. Other attempts go on in any case."""


class Barrier(Message):
    kind: Literal["barrier"] = "barrier"
    checkpoint: int
    expires_at: AwareDatetime
    savepoint: SavepointTarget | None = None
    """Not None: all files go into this directory of its own, with the manifest."""


class Stop(Message):
    """End at a boundary with a savepoint: every region finishes the batch it is in and starts
    no other; then the savepoint is written and acked like a barrier; then `AttemptStoppedReport`.

    Where no savepoint can be written the barrier is declined and the attempt fails, to be
    restarted where it was: nothing is lost.
    """

    kind: Literal["stop"] = "stop"
    checkpoint: int
    expires_at: AwareDatetime
    savepoint: SavepointTarget
    drain: bool
    """First let the watermark go to the end of time: every open window is emitted."""
    keep_runner: bool = False
    """Stay after `AttemptStoppedReport`, with Spark warm: the next `Run` comes here."""


class CheckpointCompleted(Message):
    """Everyone acked: output held back for this checkpoint may become visible."""

    kind: Literal["checkpoint_completed"] = "checkpoint_completed"
    checkpoint: int


class CheckpointAborted(Message):
    kind: Literal["checkpoint_aborted"] = "checkpoint_aborted"
    checkpoint: int
    reason: str


class Cancel(Message):
    """End the attempt after the batch under way, or at the deadline in the middle of it."""

    kind: Literal["cancel"] = "cancel"
    grace_ms: int


class Exit(Message):
    """Nothing more to do for this runner: end the process."""

    kind: Literal["exit"] = "exit"
    reason: str


DirectiveBody = Annotated[
    Run | Barrier | Stop | CheckpointCompleted | CheckpointAborted | Cancel | Exit,
    Field(discriminator="kind"),
]


class Directive(Message):
    id: int
    job: UUID | None
    attempt: int | None
    body: DirectiveBody


class Directives(Message):
    directives: list[Directive]


# ── what a runner reports ─────────────────────────────────────────────────────


class RunnerMemory(Message):
    resident_bytes: int
    """Of the runner's process and all it started."""
    heap_used_bytes: int | None = None
    heap_max_bytes: int | None = None
    """Of the JVM; None: there is none."""
    java_version: str | None = None
    slots: int | None = None
    """Tasks that Spark runs at the same time."""


class Heartbeat(Message):
    job: UUID | None
    attempt: int | None
    regions: list[RegionProgress]
    memory: RunnerMemory | None = None


class HeartbeatReply(Message):
    superseded: bool
    """True: this attempt was replaced. Stop at once, publish nothing."""
    heartbeat_interval_ms: int | None = None
    """How long to wait before the next one: longer where there are many runners."""
    urls: list[str] = []
    """As in `RunnerWelcome`, as it is now."""


class SubtaskAck(Message):
    region: str
    vertex: str
    subtask: int
    kind: Literal["state", "offsets", "sink"]
    pointer: str | None = None
    """state: this subtask's newest state file, relative to the job's directory in storage."""
    version: int | None = None
    """state: Spark's state version. sink: the last batch it committed."""
    bytes: int = 0
    key_groups: list[int] = []
    offsets: Any = None
    watermark: AwareDatetime | None = None


class BarrierAcks(Message):
    """All acks of one attempt for one barrier: sent when its manifest is durable."""

    job: UUID
    attempt: int
    checkpoint: int
    manifest: str
    batches: dict[str, int | None]
    """Region to the batch whose commit was the barrier; None: it has no batch yet."""
    bytes: int
    new_bytes: int
    """What this checkpoint added to the snapshot pool."""
    acks: list[SubtaskAck]


DeclineReason = Literal["not_running", "no_boundary_in_time", "storage", "superseded", "internal"]


class BarrierDecline(Message):
    job: UUID
    attempt: int
    checkpoint: int
    region: str | None
    reason: DeclineReason
    detail: str


class BarrierReply(Message):
    outcome: Literal["recorded", "completed", "already_recorded", "too_late", "superseded"]


class FailureReport(Message):
    kind: Literal["invalid_job", "user_code", "data", "infrastructure", "out_of_memory", "lost"]
    is_restartable: bool
    message: str
    """The root cause, in one line."""
    stack: str
    region: str | None = None


class RepartitionedRegion(Message):
    """A region whose state Spark has rewritten for another parallelism."""

    region: str
    from_parallelism: int
    to_parallelism: int
    batch: int
    """The batch that Spark wrote the new state as."""
    duration_ms: int


class AttemptPrepared(Message):
    """Every region is restored and compiled; the queries start next."""

    event: Literal["prepared"] = "prepared"
    repartitioned: list[RepartitionedRegion] = []


class AttemptRunning(Message):
    event: Literal["running"] = "running"
    restored: list[RestoredRegion]


class AttemptFinishedReport(Message):
    event: Literal["finished"] = "finished"


class AttemptStoppedReport(Message):
    """Ended at a boundary, after its savepoint was acked."""

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


class AttemptReport(Message):
    job: UUID
    attempt: int
    at: AwareDatetime
    body: Annotated[
        AttemptPrepared
        | AttemptRunning
        | AttemptFinishedReport
        | AttemptStoppedReport
        | AttemptCancelledReport
        | AttemptFailedReport,
        Field(discriminator="event"),
    ]


class AttemptReply(Message):
    superseded: bool
