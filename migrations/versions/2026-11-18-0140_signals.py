"""What goes out of the server by itself: webhooks, the messages to them, and how far traces and lineage
events have come. Traces are made of what has ended lately, so ends get an index.

Only an addition: a server of the version before works on this schema.

Revision ID: 5f0c2d7be914
Revises: 4b7d2c90e6a1
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "5f0c2d7be914"
down_revision = "4b7d2c90e6a1"
branch_labels = None
depends_on = None
_ENDED = sa.text("ended_at IS NOT NULL")


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "webhooks",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("events", postgresql.JSONB(none_as_null=True), nullable=False),
        sa.Column("job_pattern", sa.Text(), nullable=True),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("told_up_to", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("webhooks_pkey")),
    )
    op.create_index("webhooks_name_key", "webhooks", ["name"], unique=True)
    _create_deliveries()
    op.create_table(
        "signal_cursors",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("history_id", sa.BigInteger(), nullable=True),
        sa.Column("at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("signal_cursors_pkey")),
    )
    op.create_index(
        "checkpoints_ended_at_idx", "checkpoints", ["ended_at"], postgresql_where=_ENDED
    )
    op.create_index("attempts_ended_at_idx", "attempts", ["ended_at"], postgresql_where=_ENDED)


def _create_deliveries() -> None:
    op.create_table(
        "deliveries",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("webhook_id", sa.Uuid(), nullable=True),
        sa.Column("key", sa.Uuid(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=True),
        sa.Column("job_name", sa.Text(), nullable=True),
        sa.Column("history_id", sa.BigInteger(), nullable=True),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("tries", sa.BigInteger(), nullable=False),
        sa.Column("steps_aside", sa.Boolean(), nullable=False),
        sa.Column("tried_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("took_ms", sa.BigInteger(), nullable=True),
        sa.Column("answer_status", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "status IN ('pending', 'delivered', 'given_up')",
            name=op.f("deliveries_status_known_check"),
        ),
        sa.CheckConstraint(
            "(ended_at IS NOT NULL) = (status <> 'pending')",
            name=op.f("deliveries_ended_when_terminal_check"),
        ),
        sa.CheckConstraint(
            "(webhook_id IS NULL) = (target = 'openlineage')",
            name=op.f("deliveries_target_has_webhook_check"),
        ),
        sa.ForeignKeyConstraint(
            ["webhook_id"],
            ["webhooks.id"],
            name=op.f("deliveries_webhook_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("deliveries_pkey")),
    )
    op.create_index("deliveries_target_key_key", "deliveries", ["target", "key"], unique=True)
    op.create_index(
        "deliveries_pending_idx",
        "deliveries",
        ["target", "id"],
        postgresql_where=sa.text("status = 'pending'"),
    )
    op.create_index("deliveries_target_id_idx", "deliveries", ["target", "id"])
    op.create_index("deliveries_webhook_id_idx", "deliveries", ["webhook_id"])


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_index("attempts_ended_at_idx", "attempts")
    op.drop_index("checkpoints_ended_at_idx", "checkpoints")
    op.drop_table("signal_cursors")
    op.drop_table("deliveries")
    op.drop_table("webhooks")
