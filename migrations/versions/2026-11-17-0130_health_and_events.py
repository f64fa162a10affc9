"""Health of running jobs, streaks of failures, who caused what, and counts of what was pruned.

Revision ID: 7b20c4d1e9a3
Revises: 3c1d9e07ab42
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "7b20c4d1e9a3"
down_revision = "3c1d9e07ab42"
branch_labels = None
depends_on = None

_HEALTH = "health IN ('healthy', 'stalled', 'degraded')"
_ONLY_RUNNING = "(health = 'healthy') OR (status = 'running')"
_ACTOR = "actor IN ('client', 'runner', 'jobmanager')"
_SAYS_WHY = "(health = 'healthy') OR (health_reason IS NOT NULL AND health_since IS NOT NULL)"


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column(
        "jobs", sa.Column("streak", postgresql.JSONB(none_as_null=True, astext_type=sa.Text()))
    )
    op.add_column(
        "jobs",
        sa.Column("health", sa.Text(), server_default=sa.text("'healthy'"), nullable=False),
    )
    op.add_column("jobs", sa.Column("health_reason", sa.Text()))
    op.add_column("jobs", sa.Column("health_since", sa.DateTime(timezone=True)))
    op.create_check_constraint(op.f("jobs_health_known_check"), "jobs", _HEALTH)
    op.create_check_constraint(op.f("jobs_only_running_is_unhealthy_check"), "jobs", _ONLY_RUNNING)
    op.create_check_constraint(op.f("jobs_unhealthy_says_why_check"), "jobs", _SAYS_WHY)
    op.add_column(
        "jobs",
        sa.Column(
            "pruned_checkpoints",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
        ),
    )
    op.add_column(
        "history",
        sa.Column("actor", sa.Text(), server_default=sa.text("'jobmanager'"), nullable=False),
    )
    op.create_check_constraint(op.f("history_actor_known_check"), "history", _ACTOR)


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_column("history", "actor")
    for column in ("pruned_checkpoints", "health_since", "health_reason", "health", "streak"):
        op.drop_column("jobs", column)
