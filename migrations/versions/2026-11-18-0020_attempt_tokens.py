"""The hash of the token with which a runner speaks of an attempt.

An attempt that runs already has none: its runner has its own secret only, which has to do.

Revision ID: 3e8d51c07b9f
Revises: c19f2a7d40e6
"""

import sqlalchemy as sa
from alembic import op

revision = "3e8d51c07b9f"
down_revision = "c19f2a7d40e6"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column("attempts", sa.Column("token_hash", sa.Text(), nullable=True))


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_column("attempts", "token_hash")
