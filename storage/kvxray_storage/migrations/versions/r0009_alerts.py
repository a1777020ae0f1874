"""Alerts, what is to be told of them, mutes, and which rules are on."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "alert",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("engine", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("began_ns", sa.BigInteger(), nullable=False),
        sa.Column("fired_ns", sa.BigInteger(), nullable=False),
        sa.Column("ended_ns", sa.BigInteger(), nullable=True),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column("crc", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_alert"),
    )
    op.create_index("ix_alert_state_fired_ns", "alert", ["state", "fired_ns"])
    op.create_table(
        "notification",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), nullable=False),
        sa.Column("alert_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.Column("due_ns", sa.BigInteger(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("delivered_ns", sa.BigInteger(), nullable=True),
        sa.Column("error", sa.Text(), nullable=False),
        sa.Column("delivery", sa.Text(), nullable=False),
        sa.Column("crc", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_notification"),
        sa.UniqueConstraint("alert_id", "target", "kind", name="uq_notification_alert_id_target_kind"),
    )
    op.create_index("ix_notification_delivered_ns_due_ns", "notification", ["delivered_ns", "due_ns"])
    op.create_table(
        "mute",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("engine", sa.Text(), nullable=False),
        sa.Column("until_ns", sa.BigInteger(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.Column("crc", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_mute"),
    )
    op.create_table(
        "alert_rule",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("is_on", sa.Boolean(), nullable=False),
        sa.Column("text", sa.Text(), nullable=True),
        sa.Column("changed_ns", sa.BigInteger(), nullable=False),
        sa.Column("crc", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("name", name="pk_alert_rule"),
    )


def downgrade() -> None:
    for table in ("alert_rule", "mute", "notification", "alert"):
        op.drop_table(table)
