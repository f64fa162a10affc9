"""The protocol version of each runner, and which versions of Headgate can use this schema.

Only additions: a server of the version before works on this schema.

Revision ID: 7d20c4be91f3
Revises: 7e4b0c2d9f13
"""

import sqlalchemy as sa
from alembic import op

revision = "7d20c4be91f3"
down_revision = "7e4b0c2d9f13"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column(
        "runners", sa.Column("protocol", sa.BigInteger(), server_default="1", nullable=False)
    )
    op.create_table(
        "schema_compatibility",
        sa.Column("is_only", sa.Boolean(), server_default=sa.text("true"), nullable=False),
        sa.Column("oldest_version", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("is_only", name=op.f("schema_compatibility_one_row_check")),
        sa.PrimaryKeyConstraint("is_only", name=op.f("schema_compatibility_pkey")),
    )
    # Version 1 works on this schema too.
    op.execute("INSERT INTO schema_compatibility (oldest_version) VALUES (1)")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_table("schema_compatibility")
    op.drop_column("runners", "protocol")
