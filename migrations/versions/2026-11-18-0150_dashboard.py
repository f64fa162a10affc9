"""What operators asked of the dashboard: upgrades that change only the `meta` of a graph, which need
no savepoint, and the rows that sources have not read, over time.

A server of the version before works on this schema, except that it cannot list the operations of a
job with such an upgrade.

Revision ID: 5d0f7b92c4a6
Revises: 5f0c2d7be914
"""

import sqlalchemy as sa
from alembic import op

revision = "5d0f7b92c4a6"
down_revision = "5f0c2d7be914"
branch_labels = None
depends_on = None

_CHECK = "operations_only_meta_without_savepoint_check"


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.alter_column("operations", "savepoint_id", nullable=True)
    op.create_check_constraint(
        op.f(_CHECK),
        "operations",
        "savepoint_id IS NOT NULL OR (kind = 'upgrade' AND status = 'completed')",
    )
    op.add_column("samples", sa.Column("backlog_rows", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_column("samples", "backlog_rows")
    op.drop_constraint(op.f(_CHECK), "operations", type_="check")
    op.execute("DELETE FROM operations WHERE savepoint_id IS NULL")
    op.alter_column("operations", "savepoint_id", nullable=False)
