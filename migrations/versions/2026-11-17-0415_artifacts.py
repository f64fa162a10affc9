"""Users upload Python code: artifacts, known by the hash of their content.

Revision ID: a47c0d3e91b5
Revises: 5f0b7c6a91de
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "a47c0d3e91b5"
down_revision = "8c4d9e1f27b5"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "artifacts",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("modules", postgresql.JSONB(none_as_null=True), nullable=False),
        sa.Column("uploaded_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("id ~ '^[0-9a-f]{64}$'", name=op.f("artifacts_id_is_a_hash_check")),
        sa.PrimaryKeyConstraint("id", name=op.f("artifacts_pkey")),
    )
    op.create_index("artifacts_name_uploaded_at_idx", "artifacts", ["name", "uploaded_at"])
    op.create_index("artifacts_uploaded_at_idx", "artifacts", ["uploaded_at"])


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_table("artifacts")
