"""Processes that serve several runners at the same time.

Until now a process served one runner at a time, which an index made sure of. Now it does so where a
runner does not share its process.

Only an addition: a server of the version before works on this schema. Its rows do not share.

Revision ID: 4f1d8e2b6a90
Revises: 8c31d5e7a0b4
"""

import sqlalchemy as sa
from alembic import op

revision = "4f1d8e2b6a90"
down_revision = "8c31d5e7a0b4"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    shares = sa.Column("shares_process", sa.Boolean(), server_default="false", nullable=False)
    op.add_column("runners", shares)
    op.drop_index("runners_process_key", "runners")
    op.create_index(
        "runners_process_key",
        "runners",
        ["process"],
        unique=True,
        postgresql_where=sa.text("exited_at IS NULL AND NOT shares_process"),
    )
    op.create_index(
        "runners_shared_process_idx",
        "runners",
        ["process"],
        postgresql_where=sa.text("shares_process"),
    )


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_index("runners_shared_process_idx", "runners")
    # What the older schema cannot say: these runners are found by their pids alone.
    op.execute("UPDATE runners SET process = NULL WHERE shares_process")
    op.drop_index("runners_process_key", "runners")
    op.create_index(
        "runners_process_key",
        "runners",
        ["process"],
        unique=True,
        postgresql_where=sa.text("exited_at IS NULL"),
    )
    op.drop_column("runners", "shares_process")
