"""The tables. Constraints state the invariants in Postgres itself.

`migrations/` creates them; a test compares the two.
"""

from datetime import datetime
from typing import Any, ClassVar, cast
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Computed,
    DateTime,
    ForeignKeyConstraint,
    Identity,
    Index,
    MetaData,
    Text,
    Uuid,
    text,
)
from sqlalchemy import Table as SqlTable
from sqlalchemy.dialects.postgresql import ARRAY, INTEGER, JSON, JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from jobmanager.core.access.roles import Role
from jobmanager.core.life.attempt import AttemptStatus
from jobmanager.core.life.checkpoint import AbortReason, CheckpointKind, CheckpointStatus
from jobmanager.core.life.health import Health
from jobmanager.core.life.job import Desired, JobStatus
from jobmanager.core.life.operation import OperationKind, OperationStatus
from jobmanager.core.life.savepoint import SavepointStatus
from jobmanager.core.plan.job_plan import SnapshotKind
from jobmanager.core.signals.delivery import DeliveryStatus
from jobmanager.services.ports.history import Actor


class Table(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "pk": "%(table_name)s_pkey",
            "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
            "ix": "%(table_name)s_%(column_0_N_name)s_idx",
            "uq": "%(table_name)s_%(column_0_N_name)s_key",
            "ck": "%(table_name)s_%(constraint_name)s_check",
        }
    )
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        datetime: DateTime(timezone=True),
        dict[str, Any]: JSONB(none_as_null=True),
        list[Any]: JSONB(none_as_null=True),
        list[int]: ARRAY(INTEGER),
        str: Text(),
        int: BigInteger(),
        UUID: Uuid(),
    }


def table_of(rows: type[Table]) -> SqlTable:
    """Return the table itself: its rows are read and written as they are, not as objects."""
    return cast(SqlTable, rows.__table__)


def _one_of(column: str, values: type[Any]) -> CheckConstraint:
    listed = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({listed})", name=f"{column}_known")


_ENDED_JOB = "status IN ('cancelled', 'finished', 'failed')"
_ENDED_ATTEMPT = "status IN ('finished', 'cancelled', 'failed')"


class JobRow(Table):
    __tablename__ = "jobs"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    name: Mapped[str]
    # JSON, not JSONB, which sorts the keys: their order is the order of the columns.
    graph: Mapped[dict[str, Any]] = mapped_column(JSON)
    revision: Mapped[int]
    parallelism: Mapped[int]
    max_parallelism: Mapped[int]
    status: Mapped[str]
    desired: Mapped[str]
    reason: Mapped[str]
    since: Mapped[datetime]
    attempt: Mapped[int]
    failed_at: Mapped[list[Any]]
    """The last failures."""
    forgotten_failures: Mapped[int] = mapped_column(INTEGER, server_default=text("0"))
    """The number of failures before those in `failed_at`."""
    restart_at: Mapped[datetime | None]
    submitted_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    status_times: Mapped[dict[str, Any]]
    """When the job last entered each status, in epoch milliseconds."""
    next_checkpoint: Mapped[int]
    next_checkpoint_at: Mapped[datetime | None]
    """Running only."""
    failed_checkpoints: Mapped[int]
    """In a row."""
    idempotency_key: Mapped[str | None]
    restore_point: Mapped[dict[str, Any] | None]
    """What the job was started from, or last rescaled or upgraded from."""
    base_attempt: Mapped[int] = mapped_column(server_default=text("1"))
    """The base attempt: state of earlier attempts is not used for a restore."""
    data_root: Mapped[str | None]
    """Of the server that accepted it: what relative paths in the graph are relative to."""
    streak: Mapped[dict[str, Any] | None]
    """The last failures, between which no batch was committed."""
    health: Mapped[str] = mapped_column(server_default=text("'healthy'"))
    health_reason: Mapped[str | None]
    health_since: Mapped[datetime | None]
    failures: Mapped[int] = mapped_column(
        INTEGER,
        Computed("forgotten_failures + jsonb_array_length(failed_at)", persisted=True),
    )
    """All of them."""
    pruned_checkpoints: Mapped[dict[str, Any]] = mapped_column(server_default=text("'{}'"))
    """Number of checkpoints in each status whose rows were deleted."""

    __table_args__ = (
        _one_of("status", JobStatus),
        _one_of("desired", Desired),
        CheckConstraint("mod(max_parallelism, parallelism) = 0", name="parallelism_divides"),
        CheckConstraint(f"(ended_at IS NOT NULL) = ({_ENDED_JOB})", name="ended_when_terminal"),
        CheckConstraint(
            "(restart_at IS NOT NULL) = (status = 'restarting')", name="restart_when_restarting"
        ),
        _one_of("health", Health),
        CheckConstraint(
            "(health = 'healthy') OR (status = 'running')", name="only_running_is_unhealthy"
        ),
        CheckConstraint(
            "(health = 'healthy') OR (health_reason IS NOT NULL AND health_since IS NOT NULL)",
            name="unhealthy_says_why",
        ),
        Index("jobs_idempotency_key_key", "idempotency_key", unique=True),
        Index("jobs_submitted_at_idx", "submitted_at"),
        # When a checkpoint completes, the jobs that start from earlier checkpoints are looked up.
        Index(
            "jobs_started_from_idx",
            text("(restore_point ->> 'job')"),
            postgresql_where=text("restore_point IS NOT NULL"),
        ),
        # What ended first is pruned first.
        Index("jobs_ended_at_idx", "ended_at", "id", postgresql_where=text("ended_at IS NOT NULL")),
        Index("jobs_live_idx", "status", postgresql_where=text(f"NOT ({_ENDED_JOB})")),
        # Jobs are counted by state all the time: from this index alone.
        Index("jobs_status_health_idx", "status", "health", postgresql_include=["failures"]),
    )


IS_LIVE = text(f"NOT (jobs.{_ENDED_JOB})")
"""Written out, not with parameters: so Postgres sees that `jobs_live_idx` has all such jobs."""


class AttemptRow(Table):
    __tablename__ = "attempts"

    job_id: Mapped[UUID] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    status: Mapped[str]
    launched_at: Mapped[datetime]
    running_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    kill_at: Mapped[datetime | None]
    failure: Mapped[dict[str, Any] | None]
    detail: Mapped[str | None]
    keeps_runner: Mapped[bool] = mapped_column(server_default=text("false"))
    """It ended because the job was paused, and its runner stayed for the next attempt."""
    restored: Mapped[list[Any] | None]
    """What each region started from, and why."""
    progress: Mapped[list[Any] | None]
    progress_at: Mapped[datetime | None]
    token_hash: Mapped[str | None]
    """Of the token that its runner got with the directive to run it."""

    __table_args__ = (
        ForeignKeyConstraint(["job_id"], ["jobs.id"], ondelete="CASCADE"),
        _one_of("status", AttemptStatus),
        CheckConstraint("number >= 1", name="number_positive"),
        CheckConstraint(f"(ended_at IS NOT NULL) = ({_ENDED_ATTEMPT})", name="ended_when_terminal"),
        CheckConstraint("(status <> 'failed') OR (failure IS NOT NULL)", name="failed_says_why"),
        # Postgres itself makes sure that a job never has two live attempts.
        Index(
            "attempts_one_live_key",
            "job_id",
            unique=True,
            postgresql_where=text(f"NOT ({_ENDED_ATTEMPT})"),
        ),
        Index("attempts_kill_at_idx", "kill_at", postgresql_where=text("kill_at IS NOT NULL")),
        Index("attempts_ended_at_idx", "ended_at", postgresql_where=text("ended_at IS NOT NULL")),
    )


class RunnerRow(Table):
    __tablename__ = "runners"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    job_id: Mapped[UUID]
    attempt: Mapped[int]
    token_hash: Mapped[str]
    """Of its secret."""
    host: Mapped[str]
    pid: Mapped[int | None]
    process_started_at: Mapped[float | None]
    """The process's start time from the operating system: with the pid, it names a process."""
    log_path: Mapped[str]
    spark_version: Mapped[str | None]
    versions: Mapped[dict[str, Any]] = mapped_column(server_default=text("'{}'"))
    """Versions of Python and Headgate, as the runner reported."""
    memory: Mapped[dict[str, Any] | None]
    """The runner's last report: memory of its processes and its JVM, and its slots."""
    protocol: Mapped[int] = mapped_column(server_default=text("1"))
    """The version of the runner protocol that the runner named when it registered."""
    launched_at: Mapped[datetime]
    registered_at: Mapped[datetime | None]
    heartbeat_at: Mapped[datetime | None]
    exited_at: Mapped[datetime | None]
    exit_description: Mapped[str | None]
    fence_after_ms: Mapped[int | None]
    """How long it may go on without a JobManager where its sinks cannot be fenced."""
    ended_at: Mapped[datetime | None]
    """When it reported the end of the attempt that it has."""
    process: Mapped[UUID | None]
    """The process that serves it, if that served another runner before, or serves several at the
    same time. NULL: one of its own.
    """
    shares_process: Mapped[bool] = mapped_column(server_default=text("false"))
    """Whether the process serves several runners at the same time."""

    __table_args__ = (
        ForeignKeyConstraint(
            ["job_id", "attempt"], ["attempts.job_id", "attempts.number"], ondelete="CASCADE"
        ),
        Index("runners_job_id_attempt_key", "job_id", "attempt", unique=True),
        Index("runners_launched_at_idx", "launched_at"),
        Index("runners_alive_idx", "host", postgresql_where=text("exited_at IS NULL")),
        Index(
            "runners_process_key",
            "process",
            unique=True,
            postgresql_where=text("exited_at IS NULL AND NOT shares_process"),
        ),
        Index("runners_shared_process_idx", "process", postgresql_where=text("shares_process")),
    )


class SchemaCompatibilityRow(Table):
    """One row: the oldest schema version that works on this schema (`schema.py`)."""

    __tablename__ = "schema_compatibility"

    is_only: Mapped[bool] = mapped_column(primary_key=True, server_default=text("true"))
    oldest_version: Mapped[int]

    __table_args__ = (CheckConstraint("is_only", name="one_row"),)


class CheckpointRow(Table):
    __tablename__ = "checkpoints"

    job_id: Mapped[UUID] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    attempt: Mapped[int]
    kind: Mapped[str]
    status: Mapped[str]
    triggered_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    aborted_because: Mapped[str | None]
    detail: Mapped[str | None]
    manifest: Mapped[str | None]
    batches: Mapped[dict[str, Any] | None]
    bytes: Mapped[int | None]
    new_bytes: Mapped[int | None]
    barrier_times: Mapped[dict[str, Any] | None]
    discarded_at: Mapped[datetime | None]

    __table_args__ = (
        ForeignKeyConstraint(
            ["job_id", "attempt"], ["attempts.job_id", "attempts.number"], ondelete="CASCADE"
        ),
        _one_of("kind", CheckpointKind),
        _one_of("status", CheckpointStatus),
        _one_of("aborted_because", AbortReason),
        CheckConstraint(
            "(ended_at IS NOT NULL) = (status <> 'in_progress')", name="ended_when_terminal"
        ),
        CheckConstraint(
            "(status = 'aborted') = (aborted_because IS NOT NULL)", name="aborted_says_why"
        ),
        CheckConstraint(
            "(status <> 'completed') OR (manifest IS NOT NULL AND batches IS NOT NULL)",
            name="completed_has_manifest",
        ),
        Index(
            "checkpoints_in_progress_idx",
            "job_id",
            postgresql_where=text("status = 'in_progress'"),
        ),
        # Traces are made of what has ended lately.
        Index(
            "checkpoints_ended_at_idx", "ended_at", postgresql_where=text("ended_at IS NOT NULL")
        ),
        # Those that can be restored: few, however many there were.
        Index(
            "checkpoints_retained_idx",
            "job_id",
            "number",
            postgresql_where=text(
                "status = 'completed' AND kind <> 'savepoint' AND discarded_at IS NULL"
            ),
        ),
    )


class SubtaskRow(Table):
    """A subtask that a checkpoint awaits, stored before the barrier is sent; later its ack.

    Because of the primary key, a subtask can ack only once.
    """

    __tablename__ = "checkpoint_subtasks"

    job_id: Mapped[UUID] = mapped_column(primary_key=True)
    checkpoint: Mapped[int] = mapped_column(primary_key=True)
    region: Mapped[str] = mapped_column(primary_key=True)
    vertex: Mapped[str] = mapped_column(primary_key=True)
    subtask: Mapped[int] = mapped_column(primary_key=True)
    kind: Mapped[str]
    acked_at: Mapped[datetime | None]
    pointer: Mapped[str | None]
    version: Mapped[int | None]
    bytes: Mapped[int | None]
    key_groups: Mapped[list[int] | None]
    offsets: Mapped[Any] = mapped_column(JSONB(none_as_null=True), nullable=True)
    watermark: Mapped[datetime | None]

    __table_args__ = (
        ForeignKeyConstraint(
            ["job_id", "checkpoint"],
            ["checkpoints.job_id", "checkpoints.number"],
            ondelete="CASCADE",
        ),
        _one_of("kind", SnapshotKind),
        CheckConstraint("(acked_at IS NOT NULL) OR (pointer IS NULL)", name="pointer_when_acked"),
    )


class SavepointRow(Table):
    """A savepoint: it outlives its job, and its directory can be used without the database."""

    __tablename__ = "savepoints"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    job_id: Mapped[UUID | None]
    """NULL: the savepoint was adopted from a plain Spark query."""
    checkpoint: Mapped[int]
    directory: Mapped[str]
    status: Mapped[str]
    created_at: Mapped[datetime]
    completed_at: Mapped[datetime | None]
    disposed_at: Mapped[datetime | None]
    failure: Mapped[str | None]
    bytes: Mapped[int | None]
    parallelism: Mapped[int]
    max_parallelism: Mapped[int]
    graph_revision: Mapped[int]
    regions: Mapped[dict[str, Any] | None]
    labels: Mapped[dict[str, Any]]
    parent: Mapped[str | None]
    """What the job itself was started from."""
    drained: Mapped[bool] = mapped_column(server_default=text("false"))
    """The watermark is at the end of time: what came after it would be late."""

    __table_args__ = (
        ForeignKeyConstraint(
            ["job_id", "checkpoint"],
            ["checkpoints.job_id", "checkpoints.number"],
            ondelete="CASCADE",
        ),
        _one_of("status", SavepointStatus),
        CheckConstraint(
            "(status IN ('completed', 'disposed')) = (completed_at IS NOT NULL)",
            name="completed_when_it_is",
        ),
        CheckConstraint("(status = 'disposed') = (disposed_at IS NOT NULL)", name="disposed_when"),
        Index("savepoints_created_at_idx", "created_at"),
        Index("savepoints_directory_key", "directory", unique=True),
        Index("savepoints_job_id_checkpoint_idx", "job_id", "checkpoint"),
    )


class OperationRow(Table):
    """A durable request, with the client's own id if it gave one."""

    __tablename__ = "operations"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    job_id: Mapped[UUID]
    savepoint_id: Mapped[UUID | None]
    """NULL: an upgrade that changes only `meta`, for which the job runs on."""
    kind: Mapped[str]
    status: Mapped[str]
    phases: Mapped[list[Any]]
    error: Mapped[str | None]
    created_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    # JSON, because the graphs in it are: their keys are in the order of the columns.
    change: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    """What a rescale or an upgrade changes."""

    __table_args__ = (
        ForeignKeyConstraint(["job_id"], ["jobs.id"], ondelete="CASCADE"),
        ForeignKeyConstraint(["savepoint_id"], ["savepoints.id"], ondelete="CASCADE"),
        _one_of("kind", OperationKind),
        _one_of("status", OperationStatus),
        CheckConstraint(
            "(ended_at IS NOT NULL) = (status <> 'in_progress')", name="ended_when_terminal"
        ),
        CheckConstraint(
            "(status IN ('failed', 'rolled_back')) = (error IS NOT NULL)", name="failed_says_why"
        ),
        CheckConstraint(
            "(kind IN ('rescale', 'upgrade')) = (change IS NOT NULL)", name="change_says_what"
        ),
        CheckConstraint(
            "savepoint_id IS NOT NULL OR (kind = 'upgrade' AND status = 'completed')",
            name="only_meta_without_savepoint",
        ),
        # Postgres itself makes sure that only one operation at a time stops or changes a job.
        Index(
            "operations_one_stop_key",
            "job_id",
            unique=True,
            postgresql_where=text("status = 'in_progress' AND kind <> 'savepoint'"),
        ),
        Index("operations_job_id_idx", "job_id"),
        Index("operations_savepoint_id_idx", "savepoint_id"),
        Index("operations_ended_at_idx", "ended_at", postgresql_where=text("ended_at IS NOT NULL")),
        Index(
            "operations_in_progress_idx", "kind", postgresql_where=text("status = 'in_progress'")
        ),
    )


class CheckpointTriggerRow(Table):
    """The id with which a client asked for a checkpoint, and asks for its outcome."""

    __tablename__ = "checkpoint_triggers"

    job_id: Mapped[UUID] = mapped_column(primary_key=True)
    trigger_id: Mapped[UUID] = mapped_column(primary_key=True)
    checkpoint: Mapped[int]

    __table_args__ = (
        ForeignKeyConstraint(
            ["job_id", "checkpoint"],
            ["checkpoints.job_id", "checkpoints.number"],
            ondelete="CASCADE",
        ),
        Index("checkpoint_triggers_checkpoint_idx", "job_id", "checkpoint"),
    )


class ArtifactRow(Table):
    """Uploaded Python code: its content is in storage, under the hash that is its id."""

    __tablename__ = "artifacts"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    bytes: Mapped[int]
    modules: Mapped[dict[str, Any]]
    """Top-level names of each module in the artifact."""
    uploaded_at: Mapped[datetime]

    __table_args__ = (
        CheckConstraint("id ~ '^[0-9a-f]{64}$'", name="id_is_a_hash"),
        Index("artifacts_name_uploaded_at_idx", "name", "uploaded_at"),
        Index("artifacts_uploaded_at_idx", "uploaded_at"),
    )


class JarRow(Table):
    """What was uploaded by Flink's way of uploading a program: a job graph, code, or both."""

    __tablename__ = "jars"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    uploaded_at: Mapped[datetime]
    graph: Mapped[dict[str, Any] | None]
    """The job graph in it; None: the code in it is a program that makes a graph."""
    artifact: Mapped[str | None]
    """The code in it; None: it is only a job graph."""
    brought_artifact: Mapped[bool]
    """Whether the code was not there before: then it goes with the jar."""

    __table_args__ = (
        ForeignKeyConstraint(["artifact"], ["artifacts.id"], ondelete="CASCADE"),
        CheckConstraint("graph IS NOT NULL OR artifact IS NOT NULL", name="has_content"),
        Index("jars_uploaded_at_idx", "uploaded_at"),
        Index("jars_artifact_idx", "artifact"),
    )


class KeyGroupsRow(Table):
    """Which subtask owns which key groups, at the parallelism in force."""

    __tablename__ = "key_group_assignments"

    job_id: Mapped[UUID] = mapped_column(primary_key=True)
    vertex: Mapped[str] = mapped_column(primary_key=True)
    subtask: Mapped[int] = mapped_column(primary_key=True)
    key_groups: Mapped[list[int]]

    __table_args__ = (ForeignKeyConstraint(["job_id"], ["jobs.id"], ondelete="CASCADE"),)


class OutboxRow(Table):
    """An effect that was decided and is not known to have been carried out."""

    __tablename__ = "outbox"

    id: Mapped[int] = mapped_column(Identity(always=True), primary_key=True)
    job_id: Mapped[UUID]
    attempt: Mapped[int | None]
    """For a runner: the attempt that the effect is about."""
    target: Mapped[str]
    kind: Mapped[str]
    payload: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]
    due_at: Mapped[datetime]
    tries: Mapped[int]
    last_error: Mapped[str | None]

    __table_args__ = (
        ForeignKeyConstraint(["job_id"], ["jobs.id"], ondelete="CASCADE"),
        CheckConstraint("target IN ('jobmanager', 'runner')", name="target_known"),
        CheckConstraint("(target = 'runner') <= (attempt IS NOT NULL)", name="runner_has_attempt"),
        Index("outbox_due_idx", "due_at", postgresql_where=text("target = 'jobmanager'")),
        Index(
            "outbox_directives_idx",
            "job_id",
            "attempt",
            "id",
            postgresql_where=text("target = 'runner'"),
        ),
    )


class HistoryRow(Table):
    """An event of a job, with its cause. Entries are never changed."""

    __tablename__ = "history"

    id: Mapped[int] = mapped_column(Identity(always=True), primary_key=True)
    job_id: Mapped[UUID]
    at: Mapped[datetime]
    kind: Mapped[str]
    cause: Mapped[str]
    attempt: Mapped[int | None]
    checkpoint: Mapped[int | None]
    detail: Mapped[dict[str, Any]]
    actor: Mapped[str] = mapped_column(server_default=text("'jobmanager'"))
    """Whose message or decision caused the event."""
    actor_name: Mapped[str | None]
    """For a client: the name of its token."""

    __table_args__ = (
        ForeignKeyConstraint(["job_id"], ["jobs.id"], ondelete="CASCADE"),
        _one_of("actor", Actor),
        Index("history_job_id_id_idx", "job_id", "id"),
    )


class TokenRow(Table):
    """A token, without its secret text, which is stored nowhere."""

    __tablename__ = "tokens"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    name: Mapped[str]
    role: Mapped[str]
    token_hash: Mapped[str]
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    """Exact to a minute."""

    __table_args__ = (
        _one_of("role", Role),
        CheckConstraint("token_hash ~ '^[0-9a-f]{64}$'", name="only_a_hash"),
        Index("tokens_token_hash_key", "token_hash", unique=True),
        Index("tokens_name_key", "name", unique=True, postgresql_where=text("revoked_at IS NULL")),
    )


class AuditRow(Table):
    """A request that would change something: the caller, and the status of the answer."""

    __tablename__ = "audit"

    id: Mapped[int] = mapped_column(Identity(always=True), primary_key=True)
    at: Mapped[datetime]
    actor: Mapped[str]
    role: Mapped[str]
    origin: Mapped[str | None]
    method: Mapped[str]
    route: Mapped[str]
    subject: Mapped[str | None]
    status: Mapped[int | None]
    """NULL: the request is under way, or the server ended before it answered."""
    forwarded_by: Mapped[str | None]

    __table_args__ = (_one_of("role", Role), Index("audit_at_idx", "at"))


class WebhookRow(Table):
    """An address that is told of what happens to jobs."""

    __tablename__ = "webhooks"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    name: Mapped[str]
    url: Mapped[str]
    events: Mapped[list[Any]]
    job_pattern: Mapped[str | None]
    secret: Mapped[str]
    """The key of the signature, or a reference to a secret."""
    created_at: Mapped[datetime]
    told_up_to: Mapped[int]
    """The id of the last history entry that the rules were applied to."""

    __table_args__ = (Index("webhooks_name_key", "name", unique=True),)


class DeliveryRow(Table):
    """A message to a webhook, or a lineage event: to be sent, or sent."""

    __tablename__ = "deliveries"

    id: Mapped[int] = mapped_column(Identity(always=True), primary_key=True)
    target: Mapped[str]
    """The id of a webhook, or `openlineage`."""
    webhook_id: Mapped[UUID | None]
    key: Mapped[UUID]
    """The idempotency id."""
    event: Mapped[str]
    job_id: Mapped[UUID | None]
    job_name: Mapped[str | None]
    history_id: Mapped[int | None]
    body: Mapped[str]
    created_at: Mapped[datetime]
    due_at: Mapped[datetime]
    status: Mapped[str]
    tries: Mapped[int]
    steps_aside: Mapped[bool]
    tried_at: Mapped[datetime | None]
    took_ms: Mapped[int | None]
    answer_status: Mapped[int | None]
    error: Mapped[str | None]
    ended_at: Mapped[datetime | None]

    __table_args__ = (
        ForeignKeyConstraint(["webhook_id"], ["webhooks.id"], ondelete="CASCADE"),
        _one_of("status", DeliveryStatus),
        CheckConstraint(
            "(ended_at IS NOT NULL) = (status <> 'pending')", name="ended_when_terminal"
        ),
        CheckConstraint(
            "(webhook_id IS NULL) = (target = 'openlineage')", name="target_has_webhook"
        ),
        # However often a history entry is read, its message is stored once.
        Index("deliveries_target_key_key", "target", "key", unique=True),
        Index(
            "deliveries_pending_idx",
            "target",
            "id",
            postgresql_where=text("status = 'pending'"),
        ),
        Index("deliveries_target_id_idx", "target", "id"),
        Index("deliveries_webhook_id_idx", "webhook_id"),
    )


class SignalCursorRow(Table):
    """How far a signal has come that is not a webhook: lineage events, traces."""

    __tablename__ = "signal_cursors"

    name: Mapped[str] = mapped_column(primary_key=True)
    history_id: Mapped[int | None]
    at: Mapped[datetime | None]


class SampleRow(Table):
    """What a region did in a span of time. Old samples are summed up over longer spans."""

    __tablename__ = "samples"

    job_id: Mapped[UUID] = mapped_column(primary_key=True)
    region: Mapped[str] = mapped_column(primary_key=True)
    resolution_s: Mapped[int] = mapped_column(INTEGER, primary_key=True)
    """0: a sample as taken; otherwise the length of the bins it was summed up over."""
    at: Mapped[datetime] = mapped_column(primary_key=True)
    """The end of the span, or the beginning of the bin."""
    span_ms: Mapped[int]
    input_rows: Mapped[int]
    output_rows: Mapped[int]
    batches: Mapped[int]
    busy_ms: Mapped[int]
    latest_offset_ms: Mapped[int]
    get_batch_ms: Mapped[int]
    planning_ms: Mapped[int]
    wal_commit_ms: Mapped[int]
    add_batch_ms: Mapped[int]
    commit_offsets_ms: Mapped[int]
    state_rows: Mapped[int]
    state_bytes: Mapped[int]
    lag_ms: Mapped[int | None]
    backlog_rows: Mapped[int | None]
    """NULL: no source counts the rows that it has not read."""

    __table_args__ = (
        ForeignKeyConstraint(["job_id"], ["jobs.id"], ondelete="CASCADE"),
        CheckConstraint("span_ms > 0", name="takes_time"),
        Index("samples_resolution_s_at_idx", "resolution_s", "at"),
    )


PRUNED_RESTARTS = "pruned_restarts"


class TotalRow(Table):
    """A count that goes on when the rows it counted are deleted."""

    __tablename__ = "totals"

    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[int]


class LeaseRow(Table):
    """Which JobManager leads, and until when. There is always exactly one row."""

    __tablename__ = "lease"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    term: Mapped[int]
    holder: Mapped[UUID | None]
    url: Mapped[str | None]
    expires_at: Mapped[datetime]

    __table_args__ = (
        CheckConstraint("id = 1", name="only_one"),
        CheckConstraint("(holder IS NULL) = (url IS NULL)", name="holder_has_url"),
        # A key, so that FOR KEY SHARE keeps the term unchanged until a commit, while the lease can
        # still be renewed.
        Index("lease_term_key", "term", unique=True),
    )


class JobManagerRow(Table):
    """A server that runs, or ran a short while ago."""

    __tablename__ = "jobmanagers"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    url: Mapped[str]
    host: Mapped[str]
    pid: Mapped[int]
    version: Mapped[str]
    started_at: Mapped[datetime]
    seen_at: Mapped[datetime]
    """By the database's clock."""
    warm: Mapped[dict[str, Any] | None]
    """The leader's warm runners: how many are wanted, primed and starting."""
