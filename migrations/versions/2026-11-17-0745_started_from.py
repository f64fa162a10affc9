"""Who starts from whom, found without a look at every job.

Revision ID: 5b1e7c90d2a4
Revises: 8c4d9e1f27b5
"""

import sqlalchemy as sa
from alembic import op

revision = "5b1e7c90d2a4"
down_revision = "8c4d9e1f27b5"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index(
        "jobs_started_from_idx",
        "jobs",
        [sa.text("(restore_point ->> 'job')")],
        postgresql_where=sa.text("restore_point IS NOT NULL"),
    )


def downgrade() -> None:
    op.drop_index("jobs_started_from_idx", "jobs")
