"""How long runners took to answer the barriers of checkpoints.

A server of the version before works on this schema: it leaves the column empty.

Revision ID: 8c31d5e7a0b4
Revises: 5d0f7b92c4a6
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "8c31d5e7a0b4"
down_revision = "5d0f7b92c4a6"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    kind = postgresql.JSONB(astext_type=sa.Text())
    op.add_column("checkpoints", sa.Column("barrier_times", kind, nullable=True))


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_column("checkpoints", "barrier_times")
