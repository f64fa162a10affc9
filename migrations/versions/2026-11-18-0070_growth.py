"""Indexes for questions that are asked all the time, so that they do not read everything there ever
was; and for the foreign keys that pruning follows.

Revision ID: 7e4b0c2d9f13
Revises: d41b9c6207ef
"""

import sqlalchemy as sa
from alembic import op

revision = "7e4b0c2d9f13"
down_revision = "d41b9c6207ef"
branch_labels = None
depends_on = None

_RETAINED = "status = 'completed' AND kind <> 'savepoint' AND discarded_at IS NULL"
_INDEXES = (
    ("checkpoints_retained_idx", "checkpoints", ["job_id", "number"], _RETAINED),
    ("jobs_ended_at_idx", "jobs", ["ended_at", "id"], "ended_at IS NOT NULL"),
    ("attempts_kill_at_idx", "attempts", ["kill_at"], "kill_at IS NOT NULL"),
    ("runners_launched_at_idx", "runners", ["launched_at"], None),
    ("savepoints_job_id_checkpoint_idx", "savepoints", ["job_id", "checkpoint"], None),
    ("operations_savepoint_id_idx", "operations", ["savepoint_id"], None),
    ("operations_ended_at_idx", "operations", ["ended_at"], "ended_at IS NOT NULL"),
    ("operations_in_progress_idx", "operations", ["kind"], "status = 'in_progress'"),
)


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column(
        "jobs",
        sa.Column(
            "failures",
            sa.Integer(),
            sa.Computed("jsonb_array_length(failed_at)", persisted=True),
            nullable=False,
        ),
    )
    op.create_index(
        "jobs_status_health_idx", "jobs", ["status", "health"], postgresql_include=["failures"]
    )
    op.create_table(
        "totals",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="totals_pkey"),
    )
    for name, table, columns, where in _INDEXES:
        op.create_index(name, table, columns, postgresql_where=sa.text(where) if where else None)


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    for name, table, _, _ in reversed(_INDEXES):
        op.drop_index(name, table)
    op.drop_table("totals")
    op.drop_index("jobs_status_health_idx", "jobs")
    op.drop_column("jobs", "failures")
