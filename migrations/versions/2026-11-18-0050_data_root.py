"""What the relative paths of a job's graph are relative to, so that any server knows where it writes.

Revision ID: d41b9c6207ef
Revises: a7c25e81f0b3
"""

import sqlalchemy as sa
from alembic import op

revision = "d41b9c6207ef"
down_revision = "a7c25e81f0b3"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column("jobs", sa.Column("data_root", sa.Text(), nullable=True))


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_column("jobs", "data_root")
