"""The protocol version of each runner, and which versions of Headgate can use this schema.

Only additions: a server of the version before works on this schema.

Revision ID: 7d20c4be91f3
Revises: 3e8d51c07b9f
"""

import sqlalchemy as sa
from alembic import op

revision = "7d20c4be91f3"
down_revision = "3e8d51c07b9f"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column(
        "runners", sa.Column("protocol", sa.BigInteger(), server_default="1", nullable=False)
    )


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_column("runners", "protocol")
