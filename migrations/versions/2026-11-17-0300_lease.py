"""Several JobManagers: who leads, with which term and until when, and who is there.

Revision ID: 5b8e24f1c6d0
Revises: 7b20c4d1e9a3
"""

import sqlalchemy as sa
from alembic import op

revision = "5b8e24f1c6d0"
down_revision = "7b20c4d1e9a3"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "lease",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("term", sa.BigInteger(), nullable=False),
        sa.Column("holder", sa.Uuid()),
        sa.Column("url", sa.Text()),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("id = 1", name=op.f("lease_only_one_check")),
        sa.CheckConstraint(
            "(holder IS NULL) = (url IS NULL)", name=op.f("lease_holder_has_url_check")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("lease_pkey")),
    )
    op.create_index("lease_term_key", "lease", ["term"], unique=True)
    op.execute("INSERT INTO lease (id, term, expires_at) VALUES (1, 0, now())")
    op.create_table(
        "jobmanagers",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("jobmanagers_pkey")),
    )


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_table("jobmanagers")
    op.drop_table("lease")
