"""How long a runner may go on without a JobManager, and when it said that its attempt has ended.

Revision ID: 3f6d0a94c1e8
Revises: 3e8d51c07b9f
"""

import sqlalchemy as sa
from alembic import op

revision = "3f6d0a94c1e8"
down_revision = "3e8d51c07b9f"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column("runners", sa.Column("fence_after_ms", sa.BigInteger(), nullable=True))
    op.add_column("runners", sa.Column("ended_at", sa.TIMESTAMP(timezone=True), nullable=True))


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_column("runners", "ended_at")
    op.drop_column("runners", "fence_after_ms")
