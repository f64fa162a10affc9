"""The process that a runner is served by, where an earlier runner started that process.

Only an addition: a server of the version before works on this schema.

Revision ID: 9c3e5a71d0b8
Revises: 4b7fd2906ce1
"""

import sqlalchemy as sa
from alembic import op

revision = "9c3e5a71d0b8"
down_revision = "4b7fd2906ce1"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column("runners", sa.Column("process", sa.Uuid(), nullable=True))
    # A process serves one runner at a time.
    op.create_index(
        "runners_process_key",
        "runners",
        ["process"],
        unique=True,
        postgresql_where=sa.text("exited_at IS NULL"),
    )


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_index("runners_process_key", "runners")
    op.drop_column("runners", "process")
