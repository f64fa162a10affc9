"""What Flink's REST API asks for: jars, and the ids of requests for checkpoints.

Revision ID: 9e51c7d0a3f4
Revises: 4b7fd2906ce1
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "9e51c7d0a3f4"
down_revision = "4b7fd2906ce1"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "checkpoint_triggers",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("trigger_id", sa.Uuid(), nullable=False),
        sa.Column("checkpoint", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id", "checkpoint"],
            ["checkpoints.job_id", "checkpoints.number"],
            name=op.f("checkpoint_triggers_job_id_checkpoint_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("job_id", "trigger_id", name=op.f("checkpoint_triggers_pkey")),
    )
    op.create_index(
        "checkpoint_triggers_checkpoint_idx", "checkpoint_triggers", ["job_id", "checkpoint"]
    )
    op.create_table(
        "jars",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("uploaded_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("graph", postgresql.JSONB(none_as_null=True), nullable=True),
        sa.Column("artifact", sa.Text(), nullable=True),
        sa.Column("brought_artifact", sa.Boolean(), nullable=False),
        sa.CheckConstraint(
            "graph IS NOT NULL OR artifact IS NOT NULL", name=op.f("jars_has_content_check")
        ),
        sa.ForeignKeyConstraint(
            ["artifact"], ["artifacts.id"], name=op.f("jars_artifact_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("jars_pkey")),
    )
    op.create_index("jars_uploaded_at_idx", "jars", ["uploaded_at"])
    op.create_index("jars_artifact_idx", "jars", ["artifact"])


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_table("jars")
    op.drop_table("checkpoint_triggers")
