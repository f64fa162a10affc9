"""Savepoints whose watermark is at the end of time are marked, those of old too.

Revision ID: a7c25e81f0b3
Revises: 3f6d0a94c1e8
"""

import sqlalchemy as sa
from alembic import op

revision = "a7c25e81f0b3"
down_revision = "3f6d0a94c1e8"
branch_labels = None
depends_on = None

# As `jobmanager.core.snapshots.manifest.END_OF_TIME`.
_MARK = """
UPDATE savepoints SET drained = true
WHERE regions IS NOT NULL AND EXISTS (
    SELECT FROM jsonb_each(regions) AS region
    WHERE region.value ->> 'watermark' >= '9999-12-31T23:59:59')
"""


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column(
        "savepoints",
        sa.Column("drained", sa.Boolean(), nullable=False, server_default=sa.text("false")),
    )
    op.execute(_MARK)


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_column("savepoints", "drained")
