"""For the dashboard: what jobs did over time, what runners take, who keeps warm ones.

Revision ID: 8c4d9e1f27b5
Revises: a47c0d3e91b5
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "8c4d9e1f27b5"
down_revision = "a47c0d3e91b5"
branch_labels = None
depends_on = None

_SUMS = (
    "span_ms",
    "input_rows",
    "output_rows",
    "batches",
    "busy_ms",
    "latest_offset_ms",
    "get_batch_ms",
    "planning_ms",
    "wal_commit_ms",
    "add_batch_ms",
    "commit_offsets_ms",
    "state_rows",
    "state_bytes",
)


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "samples",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("resolution_s", sa.Integer(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in _SUMS),
        sa.Column("lag_ms", sa.BigInteger()),
        sa.CheckConstraint("span_ms > 0", name=op.f("samples_takes_time_check")),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name=op.f("samples_job_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint(
            "job_id", "region", "resolution_s", "at", name=op.f("samples_pkey")
        ),
    )
    op.create_index("samples_resolution_s_at_idx", "samples", ["resolution_s", "at"])
    op.add_column(
        "runners",
        sa.Column("versions", postgresql.JSONB(), server_default=sa.text("'{}'"), nullable=False),
    )
    op.add_column("runners", sa.Column("memory", postgresql.JSONB()))
    op.add_column("jobmanagers", sa.Column("warm", postgresql.JSONB()))


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_column("jobmanagers", "warm")
    op.drop_column("runners", "memory")
    op.drop_column("runners", "versions")
    op.drop_table("samples")
