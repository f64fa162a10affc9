"""Rescale and upgrade: what they change, and the attempt that the job goes back to at most.

Revision ID: 3c1d9e07ab42
Revises: 82e314b6cb60
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "3c1d9e07ab42"
down_revision = "82e314b6cb60"
branch_labels = None
depends_on = None

_ONE_AT_A_TIME = "operations_one_stop_key"


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column(
        "jobs",
        sa.Column("base_attempt", sa.BigInteger(), server_default=sa.text("1"), nullable=False),
    )
    op.add_column(
        "operations",
        sa.Column("change", postgresql.JSON(none_as_null=True, astext_type=sa.Text())),
    )
    _check("kind_known", "kind IN ('savepoint', 'stop', 'cancel', 'rescale', 'upgrade')")
    _check("status_known", "status IN ('in_progress', 'completed', 'failed', 'rolled_back')")
    _check("failed_says_why", "(status IN ('failed', 'rolled_back')) = (error IS NOT NULL)")
    op.create_check_constraint(
        op.f("operations_change_says_what_check"),
        "operations",
        "(kind IN ('rescale', 'upgrade')) = (change IS NOT NULL)",
    )
    _one_at_a_time("status = 'in_progress' AND kind <> 'savepoint'")


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("DELETE FROM operations WHERE change IS NOT NULL")
    op.drop_constraint(op.f("operations_change_says_what_check"), "operations")
    op.drop_column("operations", "change")
    op.drop_column("jobs", "base_attempt")
    _check("kind_known", "kind IN ('savepoint', 'stop', 'cancel')")
    _check("status_known", "status IN ('in_progress', 'completed', 'failed')")
    _check("failed_says_why", "(status = 'failed') = (error IS NOT NULL)")
    _one_at_a_time("status = 'in_progress' AND kind IN ('stop', 'cancel')")


def _check(name: str, condition: str) -> None:
    full = op.f(f"operations_{name}_check")
    op.drop_constraint(full, "operations")
    op.create_check_constraint(full, "operations", condition)


def _one_at_a_time(condition: str) -> None:
    op.drop_index(_ONE_AT_A_TIME, table_name="operations")
    op.create_index(
        _ONE_AT_A_TIME, "operations", ["job_id"], unique=True, postgresql_where=sa.text(condition)
    )
