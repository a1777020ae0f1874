"""The tables of alerts: those that fired, whom they are to be told to, who is left in peace, which rules are on."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from kvxray_storage.table_parts import crc, metadata

alert: Final = sa.Table(
    "alert",
    metadata,
    # A rule that fired for an engine, from then until it was over; `evidence`: a JSON object, the backend's to know.
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("rule", sa.Text, nullable=False),
    # The name of the engine, or of the fleet, that it is about.
    sa.Column("engine", sa.Text, nullable=False),
    sa.Column("severity", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("began_ns", sa.BigInteger, nullable=False),
    sa.Column("fired_ns", sa.BigInteger, nullable=False),
    sa.Column("ended_ns", sa.BigInteger),
    sa.Column("evidence", sa.Text, nullable=False),
    crc(),
    sa.Index(None, "state", "fired_ns"),
)

notification: Final = sa.Table(
    "notification",
    metadata,
    # What a target is to be told of an alert (that it fired, that it is over), until it was told.
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("target", sa.Text, nullable=False),
    sa.Column("alert_id", sa.Text, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    sa.Column("due_ns", sa.BigInteger, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("delivered_ns", sa.BigInteger),
    # Why the last try failed; empty: none did.
    sa.Column("error", sa.Text, nullable=False),
    # Id of the delivery that it was sent with and may have arrived by; empty: none.
    sa.Column("delivery", sa.Text, nullable=False),
    crc(),
    sa.Index(None, "delivered_ns", "due_ns"),
    sa.UniqueConstraint("alert_id", "target", "kind"),
)

mute: Final = sa.Table(
    "mute",
    metadata,
    # Nobody is notified of a rule (empty: any), for an engine (empty: any), until then.
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("rule", sa.Text, nullable=False),
    sa.Column("engine", sa.Text, nullable=False),
    sa.Column("until_ns", sa.BigInteger, nullable=False),
    sa.Column("note", sa.Text, nullable=False),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    crc(),
)

alert_rule: Final = sa.Table(
    "alert_rule",
    metadata,
    # Whether a rule is on, where somebody decided; `text`: of one that was written on the page, its YAML.
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("is_on", sa.Boolean, nullable=False),
    sa.Column("text", sa.Text),
    sa.Column("changed_ns", sa.BigInteger, nullable=False),
    crc(),
)
