"""A job remembers the times of its last failures only, and counts the failures before them.

`failures` is computed, and is the sum of both. Programs of the version before append to `failed_at`
and leave the count alone, so the sum stays right with them too.

Revision ID: 4b7fd2906ce1
Revises: 7d20c4be91f3
"""

import sqlalchemy as sa
from alembic import op

revision = "4b7fd2906ce1"
down_revision = "7d20c4be91f3"
branch_labels = None
depends_on = None

_REMEMBERED = "jsonb_array_length(failed_at)"


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column(
        "jobs", sa.Column("forgotten_failures", sa.Integer(), server_default="0", nullable=False)
    )
    _compute_failures(f"forgotten_failures + {_REMEMBERED}")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    _compute_failures(_REMEMBERED)
    op.drop_column("jobs", "forgotten_failures")


def _compute_failures(expression: str) -> None:
    """Make the column again, since Postgres before 17 cannot change the expression of a column."""
    op.drop_index("jobs_status_health_idx", "jobs")
    op.drop_column("jobs", "failures")
    computed = sa.Computed(expression, persisted=True)
    op.add_column("jobs", sa.Column("failures", sa.Integer(), computed, nullable=False))
    op.create_index(
        "jobs_status_health_idx", "jobs", ["status", "health"], postgresql_include=["failures"]
    )
