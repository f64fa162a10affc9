"""Who may do what: tokens, the audit of every write, and the name behind an entry of the history.

Only additions: a server of the version before works on this schema.

Revision ID: c19f2a7d40e6
Revises: 5b1e7c90d2a4
"""

import sqlalchemy as sa
from alembic import op

revision = "c19f2a7d40e6"
down_revision = "5b1e7c90d2a4"
branch_labels = None
depends_on = None

_ROLES = "role IN ('viewer', 'operator', 'developer', 'admin')"


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "tokens",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(_ROLES, name=op.f("tokens_role_known_check")),
        sa.CheckConstraint("token_hash ~ '^[0-9a-f]{64}$'", name=op.f("tokens_only_a_hash_check")),
        sa.PrimaryKeyConstraint("id", name=op.f("tokens_pkey")),
    )
    op.create_index("tokens_token_hash_key", "tokens", ["token_hash"], unique=True)
    op.create_index(
        "tokens_name_key",
        "tokens",
        ["name"],
        unique=True,
        postgresql_where=sa.text("revoked_at IS NULL"),
    )
    op.create_table(
        "audit",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=True),
        sa.Column("method", sa.Text(), nullable=False),
        sa.Column("route", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=True),
        sa.Column("status", sa.BigInteger(), nullable=True),
        sa.Column("forwarded_by", sa.Text(), nullable=True),
        sa.CheckConstraint(_ROLES, name=op.f("audit_role_known_check")),
        sa.PrimaryKeyConstraint("id", name=op.f("audit_pkey")),
    )
    op.create_index("audit_at_idx", "audit", ["at"])
    op.add_column("history", sa.Column("actor_name", sa.Text(), nullable=True))


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_column("history", "actor_name")
    op.drop_table("audit")
    op.drop_table("tokens")
