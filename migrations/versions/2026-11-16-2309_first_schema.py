"""The first schema: jobs, attempts, runners, checkpoints, key groups, outbox, history.

The constraints are the invariants of the design, so that a bug in the code meets
an error and not a job that runs twice or a checkpoint that completes without acks.

Revision ID: 82e314b6cb60
Revises:
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "82e314b6cb60"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "jobs",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("graph", postgresql.JSON(astext_type=sa.Text()), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("parallelism", sa.BigInteger(), nullable=False),
        sa.Column("max_parallelism", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("desired", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column(
            "failed_at", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False
        ),
        sa.Column("restart_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("submitted_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "status_times",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            nullable=False,
        ),
        sa.Column("next_checkpoint", sa.BigInteger(), nullable=False),
        sa.Column("next_checkpoint_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("failed_checkpoints", sa.BigInteger(), nullable=False),
        sa.Column("idempotency_key", sa.Text(), nullable=True),
        sa.Column(
            "restore_point",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            nullable=True,
        ),
        sa.CheckConstraint(
            "(ended_at IS NOT NULL) = (status IN ('cancelled', 'finished', 'failed'))",
            name=op.f("jobs_ended_when_terminal_check"),
        ),
        sa.CheckConstraint(
            "(restart_at IS NOT NULL) = (status = 'restarting')",
            name=op.f("jobs_restart_when_restarting_check"),
        ),
        sa.CheckConstraint(
            "desired IN ('running', 'cancelled')", name=op.f("jobs_desired_known_check")
        ),
        sa.CheckConstraint(
            "status IN ('starting', 'running', 'restarting', 'cancelling', 'cancelled', 'finished', 'failed')",
            name=op.f("jobs_status_known_check"),
        ),
        sa.CheckConstraint(
            "mod(max_parallelism, parallelism) = 0", name=op.f("jobs_parallelism_divides_check")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("jobs_pkey")),
    )
    op.create_index("jobs_idempotency_key_key", "jobs", ["idempotency_key"], unique=True)
    op.create_index(
        "jobs_live_idx",
        "jobs",
        ["status"],
        unique=False,
        postgresql_where=sa.text("NOT (status IN ('cancelled', 'finished', 'failed'))"),
    )
    op.create_index("jobs_submitted_at_idx", "jobs", ["submitted_at"], unique=False)
    op.create_table(
        "attempts",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("launched_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("running_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("kill_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "failure", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True
        ),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column(
            "restored", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True
        ),
        sa.Column(
            "progress", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True
        ),
        sa.Column("progress_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "(ended_at IS NOT NULL) = (status IN ('finished', 'cancelled', 'failed'))",
            name=op.f("attempts_ended_when_terminal_check"),
        ),
        sa.CheckConstraint(
            "(status <> 'failed') OR (failure IS NOT NULL)",
            name=op.f("attempts_failed_says_why_check"),
        ),
        sa.CheckConstraint(
            "status IN ('launching', 'starting', 'running', 'cancelling', 'finished', 'cancelled', 'failed')",
            name=op.f("attempts_status_known_check"),
        ),
        sa.CheckConstraint("number >= 1", name=op.f("attempts_number_positive_check")),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("attempts_job_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "number", name=op.f("attempts_pkey")),
    )
    op.create_index(
        "attempts_one_live_key",
        "attempts",
        ["job_id"],
        unique=True,
        postgresql_where=sa.text("NOT (status IN ('finished', 'cancelled', 'failed'))"),
    )
    op.create_table(
        "history",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=True),
        sa.Column("checkpoint", sa.BigInteger(), nullable=True),
        sa.Column(
            "detail", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False
        ),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("history_job_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("history_pkey")),
    )
    op.create_index("history_job_id_id_idx", "history", ["job_id", "id"], unique=False)
    op.create_table(
        "key_group_assignments",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("vertex", sa.Text(), nullable=False),
        sa.Column("subtask", sa.BigInteger(), nullable=False),
        sa.Column("key_groups", postgresql.ARRAY(sa.INTEGER()), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["jobs.id"],
            name=op.f("key_group_assignments_job_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "job_id", "vertex", "subtask", name=op.f("key_group_assignments_pkey")
        ),
    )
    op.create_table(
        "outbox",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=True),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column(
            "payload", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False
        ),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("tries", sa.BigInteger(), nullable=False),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "(target = 'runner') <= (attempt IS NOT NULL)",
            name=op.f("outbox_runner_has_attempt_check"),
        ),
        sa.CheckConstraint(
            "target IN ('jobmanager', 'runner')", name=op.f("outbox_target_known_check")
        ),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("outbox_job_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("outbox_pkey")),
    )
    op.create_index(
        "outbox_directives_idx",
        "outbox",
        ["job_id", "attempt", "id"],
        unique=False,
        postgresql_where=sa.text("target = 'runner'"),
    )
    op.create_index(
        "outbox_due_idx",
        "outbox",
        ["due_at"],
        unique=False,
        postgresql_where=sa.text("target = 'jobmanager'"),
    )
    op.create_table(
        "checkpoints",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("triggered_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("aborted_because", sa.Text(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("manifest", sa.Text(), nullable=True),
        sa.Column(
            "batches", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True
        ),
        sa.Column("bytes", sa.BigInteger(), nullable=True),
        sa.Column("new_bytes", sa.BigInteger(), nullable=True),
        sa.Column("discarded_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "(ended_at IS NOT NULL) = (status <> 'in_progress')",
            name=op.f("checkpoints_ended_when_terminal_check"),
        ),
        sa.CheckConstraint(
            "(status <> 'completed') OR (manifest IS NOT NULL AND batches IS NOT NULL)",
            name=op.f("checkpoints_completed_has_manifest_check"),
        ),
        sa.CheckConstraint(
            "(status = 'aborted') = (aborted_because IS NOT NULL)",
            name=op.f("checkpoints_aborted_says_why_check"),
        ),
        sa.CheckConstraint(
            "aborted_because IN ('declined_not_running', 'declined_no_boundary_in_time', 'declined_storage', 'declined_superseded', 'declined_internal', 'expired', 'attempt_ended')",
            name=op.f("checkpoints_aborted_because_known_check"),
        ),
        sa.CheckConstraint(
            "kind IN ('periodic', 'requested', 'savepoint')",
            name=op.f("checkpoints_kind_known_check"),
        ),
        sa.CheckConstraint(
            "status IN ('in_progress', 'completed', 'aborted')",
            name=op.f("checkpoints_status_known_check"),
        ),
        sa.ForeignKeyConstraint(
            ["job_id", "attempt"],
            ["attempts.job_id", "attempts.number"],
            name=op.f("checkpoints_job_id_attempt_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("job_id", "number", name=op.f("checkpoints_pkey")),
    )
    op.create_index(
        "checkpoints_in_progress_idx",
        "checkpoints",
        ["job_id"],
        unique=False,
        postgresql_where=sa.text("status = 'in_progress'"),
    )
    op.create_table(
        "runners",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=True),
        sa.Column("process_started_at", sa.Double(), nullable=True),
        sa.Column("log_path", sa.Text(), nullable=False),
        sa.Column("spark_version", sa.Text(), nullable=True),
        sa.Column("launched_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("registered_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("heartbeat_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("exited_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("exit_description", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["job_id", "attempt"],
            ["attempts.job_id", "attempts.number"],
            name=op.f("runners_job_id_attempt_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("runners_pkey")),
    )
    op.create_index(
        "runners_alive_idx",
        "runners",
        ["host"],
        unique=False,
        postgresql_where=sa.text("exited_at IS NULL"),
    )
    op.create_index("runners_job_id_attempt_key", "runners", ["job_id", "attempt"], unique=True)
    op.create_table(
        "checkpoint_subtasks",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("checkpoint", sa.BigInteger(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("vertex", sa.Text(), nullable=False),
        sa.Column("subtask", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("acked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("pointer", sa.Text(), nullable=True),
        sa.Column("version", sa.BigInteger(), nullable=True),
        sa.Column("bytes", sa.BigInteger(), nullable=True),
        sa.Column("key_groups", postgresql.ARRAY(sa.INTEGER()), nullable=True),
        sa.Column(
            "offsets", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True
        ),
        sa.Column("watermark", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "kind IN ('state', 'offsets', 'sink')",
            name=op.f("checkpoint_subtasks_kind_known_check"),
        ),
        sa.CheckConstraint(
            "(acked_at IS NOT NULL) OR (pointer IS NULL)",
            name=op.f("checkpoint_subtasks_pointer_when_acked_check"),
        ),
        sa.ForeignKeyConstraint(
            ["job_id", "checkpoint"],
            ["checkpoints.job_id", "checkpoints.number"],
            name=op.f("checkpoint_subtasks_job_id_checkpoint_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "job_id",
            "checkpoint",
            "region",
            "vertex",
            "subtask",
            name=op.f("checkpoint_subtasks_pkey"),
        ),
    )
    op.create_table(
        "savepoints",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("checkpoint", sa.BigInteger(), nullable=False),
        sa.Column("directory", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("completed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("disposed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("failure", sa.Text(), nullable=True),
        sa.Column("bytes", sa.BigInteger(), nullable=True),
        sa.Column("parallelism", sa.BigInteger(), nullable=False),
        sa.Column("max_parallelism", sa.BigInteger(), nullable=False),
        sa.Column("graph_revision", sa.BigInteger(), nullable=False),
        sa.Column(
            "regions", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=True
        ),
        sa.Column(
            "labels", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False
        ),
        sa.Column("parent", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "(status = 'disposed') = (disposed_at IS NOT NULL)",
            name=op.f("savepoints_disposed_when_check"),
        ),
        sa.CheckConstraint(
            "(status IN ('completed', 'disposed')) = (completed_at IS NOT NULL)",
            name=op.f("savepoints_completed_when_it_is_check"),
        ),
        sa.CheckConstraint(
            "status IN ('in_progress', 'completed', 'failed', 'disposed')",
            name=op.f("savepoints_status_known_check"),
        ),
        sa.ForeignKeyConstraint(
            ["job_id", "checkpoint"],
            ["checkpoints.job_id", "checkpoints.number"],
            name=op.f("savepoints_job_id_checkpoint_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("savepoints_pkey")),
    )
    op.create_index("savepoints_created_at_idx", "savepoints", ["created_at"], unique=False)
    op.create_index("savepoints_directory_key", "savepoints", ["directory"], unique=True)
    op.create_table(
        "operations",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("savepoint_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column(
            "phases", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()), nullable=False
        ),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "(ended_at IS NOT NULL) = (status <> 'in_progress')",
            name=op.f("operations_ended_when_terminal_check"),
        ),
        sa.CheckConstraint(
            "(status = 'failed') = (error IS NOT NULL)",
            name=op.f("operations_failed_says_why_check"),
        ),
        sa.CheckConstraint(
            "kind IN ('savepoint', 'stop', 'cancel')", name=op.f("operations_kind_known_check")
        ),
        sa.CheckConstraint(
            "status IN ('in_progress', 'completed', 'failed')",
            name=op.f("operations_status_known_check"),
        ),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("operations_job_id_fkey"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["savepoint_id"],
            ["savepoints.id"],
            name=op.f("operations_savepoint_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("operations_pkey")),
    )
    op.create_index("operations_job_id_idx", "operations", ["job_id"], unique=False)
    op.create_index(
        "operations_one_stop_key",
        "operations",
        ["job_id"],
        unique=True,
        postgresql_where=sa.text("status = 'in_progress' AND kind IN ('stop', 'cancel')"),
    )


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_index(
        "operations_one_stop_key",
        table_name="operations",
        postgresql_where=sa.text("status = 'in_progress' AND kind IN ('stop', 'cancel')"),
    )
    op.drop_index("operations_job_id_idx", table_name="operations")
    op.drop_table("operations")
    op.drop_index("savepoints_directory_key", table_name="savepoints")
    op.drop_index("savepoints_created_at_idx", table_name="savepoints")
    op.drop_table("savepoints")
    op.drop_table("checkpoint_subtasks")
    op.drop_index("runners_job_id_attempt_key", table_name="runners")
    op.drop_index(
        "runners_alive_idx", table_name="runners", postgresql_where=sa.text("exited_at IS NULL")
    )
    op.drop_table("runners")
    op.drop_index(
        "checkpoints_in_progress_idx",
        table_name="checkpoints",
        postgresql_where=sa.text("status = 'in_progress'"),
    )
    op.drop_table("checkpoints")
    op.drop_index(
        "outbox_due_idx", table_name="outbox", postgresql_where=sa.text("target = 'jobmanager'")
    )
    op.drop_index(
        "outbox_directives_idx", table_name="outbox", postgresql_where=sa.text("target = 'runner'")
    )
    op.drop_table("outbox")
    op.drop_table("key_group_assignments")
    op.drop_index("history_job_id_id_idx", table_name="history")
    op.drop_table("history")
    op.drop_index(
        "attempts_one_live_key",
        table_name="attempts",
        postgresql_where=sa.text("NOT (status IN ('finished', 'cancelled', 'failed'))"),
    )
    op.drop_table("attempts")
    op.drop_index("jobs_submitted_at_idx", table_name="jobs")
    op.drop_index(
        "jobs_live_idx",
        table_name="jobs",
        postgresql_where=sa.text("NOT (status IN ('cancelled', 'finished', 'failed'))"),
    )
    op.drop_index("jobs_idempotency_key_key", table_name="jobs")
    op.drop_table("jobs")
