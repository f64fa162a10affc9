"""Jobs that are paused, and attempts whose runner stays for the next attempt.

A server of the version before works on this schema as long as no job is paused.

Revision ID: 4b7d2c90e6a1
Revises: 9c3e5a71d0b8
"""

import sqlalchemy as sa
from alembic import op

revision = "4b7d2c90e6a1"
down_revision = "9c3e5a71d0b8"
branch_labels = None
depends_on = None

_BEFORE = "'starting', 'running', 'restarting', 'cancelling', 'cancelled', 'finished', 'failed'"
_AFTER = (
    "'starting', 'running', 'restarting', 'pausing', 'paused', 'cancelling', 'cancelled', "
    "'finished', 'failed'"
)


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    _allow(_AFTER, "'running', 'paused', 'cancelled'")
    op.add_column(
        "attempts",
        sa.Column("keeps_runner", sa.Boolean(), server_default=sa.text("false"), nullable=False),
    )


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    # A job that rests is started again: that is all that the version before can do with it.
    op.execute("UPDATE jobs SET status = 'restarting', restart_at = now() WHERE status = 'paused'")
    op.execute("UPDATE jobs SET status = 'cancelling' WHERE status = 'pausing'")
    op.execute("UPDATE jobs SET desired = 'running' WHERE desired = 'paused'")
    op.drop_column("attempts", "keeps_runner")
    _allow(_BEFORE, "'running', 'cancelled'")


def _allow(statuses: str, desired: str) -> None:
    for name, words in (("status", statuses), ("desired", desired)):
        op.drop_constraint(op.f(f"jobs_{name}_known_check"), "jobs", type_="check")
        op.create_check_constraint(op.f(f"jobs_{name}_known_check"), "jobs", f"{name} IN ({words})")
