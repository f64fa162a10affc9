"""A savepoint may be adopted from a plain Spark query: then no job of ours wrote it.

Revision ID: 5f0b7c6a91de
Revises: 5b8e24f1c6d0
"""

from alembic import op

revision = "5f0b7c6a91de"
down_revision = "5b8e24f1c6d0"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.alter_column("savepoints", "job_id", nullable=True)


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("DELETE FROM savepoints WHERE job_id IS NULL")
    op.alter_column("savepoints", "job_id", nullable=False)
