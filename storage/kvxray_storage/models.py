"""The tables of the event log, the same on SQLite and PostgreSQL. Only shapes: who writes and reads stands elsewhere.
Those of alerts stand in `alert_tables` and are had from here too, so that every table is.

Times are wall-clock nanoseconds (BIGINT). `seq` and `wire_seq` ranges include both ends. Hashes and encoded columns are
bytes and never numbers. JSON is text. A new table or column comes with a migration; a test compares the two.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from kvxray_storage.alert_tables import alert as alert
from kvxray_storage.alert_tables import alert_rule as alert_rule
from kvxray_storage.alert_tables import mute as mute
from kvxray_storage.alert_tables import notification as notification
from kvxray_storage.rollup_columns import COUNTERS, GAUGE_COLUMNS, HISTOGRAMS, MAXIMA
from kvxray_storage.table_parts import crc, key, of_epoch
from kvxray_storage.table_parts import metadata as metadata

setting: Final = sa.Table(
    "setting",
    metadata,
    # What the database itself must remember, such as the key of its digests.
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.LargeBinary, nullable=False),
    crc(),
)

source: Final = sa.Table(
    "source",
    metadata,
    sa.Column("source_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("labels", sa.Text, nullable=False),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    crc(),
)

epoch: Final = sa.Table(
    "epoch",
    metadata,
    *key(),
    sa.Column("incarnation", sa.Text, nullable=False),
    sa.Column("descriptor", sa.Text, nullable=False),
    sa.Column("started_ns", sa.BigInteger, nullable=False),
    # NULL while it is the one its source lives in.
    sa.Column("ended_ns", sa.BigInteger),
    # What is stored of it: NULL and 0 until the first chunk.
    sa.Column("first_seq", sa.BigInteger),
    sa.Column("last_seq", sa.BigInteger),
    sa.Column("last_ns", sa.BigInteger),
    sa.Column("num_events", sa.BigInteger, nullable=False),
    sa.Column("num_chunks", sa.BigInteger, nullable=False),
    # What the source was when the epoch began, `descriptor` being what it is now; NULL: not noted by an older kvxray.
    sa.Column("first_descriptor", sa.Text),
    # Of the stored, what retention took away again: the chunks up to event `pruned_seq`, which happened at `pruned_ns`.
    sa.Column("pruned_events", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("pruned_chunks", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("pruned_seq", sa.BigInteger),
    sa.Column("pruned_ns", sa.BigInteger),
    # Of what stays as it was, and of `descriptor`, which changes.
    crc(),
    crc("descriptor_crc"),
    # When an import of it began that has not ended: what is here is a part of the file. NULL: it is whole.
    sa.Column("importing_ns", sa.BigInteger),
    sa.ForeignKeyConstraint(["source_id"], ["source.source_id"], ondelete="CASCADE"),
    sa.UniqueConstraint("source_id", "incarnation"),
)

chunk: Final = sa.Table(
    "chunk",
    metadata,
    *key(),
    # The key is the first message's number: unlike `seq` it moves even with a message that holds no event.
    sa.Column("wire_seq0", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("wire_seq1", sa.BigInteger, nullable=False),
    # seq1 = seq0 - 1 in a chunk without events (a changed descriptor alone).
    sa.Column("seq0", sa.BigInteger, nullable=False),
    sa.Column("seq1", sa.BigInteger, nullable=False),
    sa.Column("num_events", sa.Integer, nullable=False),
    # Ordinals first told here: any ordinal resolves by one look-up of a range.
    sa.Column("req0", sa.BigInteger, nullable=False),
    sa.Column("num_req", sa.Integer, nullable=False),
    sa.Column("hash0", sa.BigInteger, nullable=False),
    sa.Column("num_hash", sa.Integer, nullable=False),
    sa.Column("t0_ns", sa.BigInteger, nullable=False),
    sa.Column("t1_ns", sa.BigInteger, nullable=False),
    # Of the columns that follow, together.
    sa.Column("num_bytes", sa.BigInteger, nullable=False, server_default="0"),
    # Events by kind, the blocks touched, the hashes first told (NULL: not indexed): what lets a reader skip `data`,
    # which therefore stands last in the row.
    sa.Column("counts", sa.LargeBinary, nullable=False),
    sa.Column("bits", sa.LargeBinary, nullable=False),
    sa.Column("hash_bits", sa.LargeBinary),
    sa.Column("data", sa.LargeBinary, nullable=False),
    of_epoch(),
    # Chunks of an epoch do not overlap: by their ends they are in the order of their events.
    sa.Index(None, "source_id", "epoch", "seq1"),
    sa.Index(None, "source_id", "epoch", "t1_ns"),
    sa.Index(None, "source_id", "epoch", "hash0"),
)

keyframe: Final = sa.Table(
    "keyframe",
    metadata,
    *key(),
    # The state before event `seq` of message `wire_seq`: replay goes on with the chunks from there.
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("wire_seq", sa.BigInteger, nullable=False),
    sa.Column("t_ns", sa.BigInteger, nullable=False),
    # `snapshot`: told by the engine, with the bytes of its hashes; `periodic`: made by folding what is stored, with
    # their ordinals only.
    sa.Column("origin", sa.Text, nullable=False, server_default="snapshot"),
    sa.Column("num_bytes", sa.BigInteger, nullable=False, server_default="0"),
    # The rollups that were open here. NULL: everything after this keyframe is still to be folded.
    sa.Column("rollup", sa.LargeBinary),
    sa.Column("state", sa.LargeBinary, nullable=False),
    of_epoch(),
)

name: Final = sa.Table(
    "name",
    metadata,
    *key(),
    # What the ordinal of a holder means. Kept apart from the chunks because it outlives them, and to be found by id.
    sa.Column("ordinal", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("id", sa.Text, nullable=False),
    # What is not usual of kind, parent, deadline, tenant, session, LoRA and salt as the stream tells them (a JSON
    # object; until schema 0006 an array of all); secrets digested.
    sa.Column("detail", sa.Text, nullable=False),
    crc(),
    of_epoch(),
    sa.Index(None, "source_id", "id"),
    sqlite_with_rowid=False,
)

posting: Final = sa.Table(
    "posting",
    metadata,
    *key(),
    # Which of the holders with ordinals 256 * bucket.. occur in which chunks of messages wire_seq0..wire_seq1, as
    # `postings.py` packs it: one row a bucket and commit. Rows a holder took a sixth of all that a server stores.
    sa.Column("bucket", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("wire_seq0", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("wire_seq1", sa.BigInteger, nullable=False),
    sa.Column("packed", sa.LargeBinary, nullable=False),
    of_epoch(),
    sqlite_with_rowid=False,
)

gap: Final = sa.Table(
    "gap",
    metadata,
    *key(),
    # Messages wire_seq0..wire_seq1, and with them events seq0..seq1, that are not stored.
    sa.Column("wire_seq0", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("wire_seq1", sa.BigInteger, nullable=False),
    sa.Column("seq0", sa.BigInteger, nullable=False),
    # NULL when nothing that came later told where the missing events end.
    sa.Column("seq1", sa.BigInteger),
    sa.Column("at_ns", sa.BigInteger, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    # When the missing messages were stored after all; NULL while they are missing.
    sa.Column("repaired_ns", sa.BigInteger),
    crc(),
    of_epoch(),
)

cursor: Final = sa.Table(
    "cursor",
    metadata,
    *key(),
    # Everything before these numbers is durable or a recorded gap: what "acknowledged" means.
    sa.Column("next_wire_seq", sa.BigInteger, nullable=False),
    sa.Column("next_seq", sa.BigInteger, nullable=False),
    of_epoch(),
)

finding: Final = sa.Table(
    "finding",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("seq0", sa.BigInteger, nullable=False),
    sa.Column("seq1", sa.BigInteger, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("severity", sa.Text, nullable=False),
    sa.Column("at_ns", sa.BigInteger, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("ended_ns", sa.BigInteger),
    sa.Column("subjects", sa.Text, nullable=False),
    sa.Column("numbers", sa.Text, nullable=False),
    sa.Column("certainty", sa.Text, nullable=False),
    sa.Column("sentence", sa.Text, nullable=False),
    crc(),
    sa.Index(None, "source", "state", "at_ns"),
)


def _rollup(name: str) -> sa.Table:
    """What happened in each second or minute in which anything did; outlives the chunks it was made from."""
    return sa.Table(
        name,
        metadata,
        sa.Column("source_id", sa.Integer, primary_key=True, autoincrement=False),
        # Its first second, of the events' wall time. Before the epoch in the key, so that a source reads as one.
        sa.Column("t_s", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("epoch", sa.Integer, primary_key=True, autoincrement=False),
        *(sa.Column(one, sa.BigInteger, nullable=False) for one in (*COUNTERS, *MAXIMA)),
        *(sa.Column(one, sa.LargeBinary, nullable=False) for one in HISTOGRAMS),
        sa.Column("usable_blocks", sa.BigInteger),
        *(sa.Column(one, sa.BigInteger) for one in GAUGE_COLUMNS),
        crc(),
        of_epoch(),
        sqlite_with_rowid=False,
    )


rollup_1s: Final = _rollup("rollup_1s")
rollup_1m: Final = _rollup("rollup_1m")

bookmark: Final = sa.Table(
    "bookmark",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    # A moment of a source, and what somebody wrote of it.
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("epoch", sa.Integer, nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("at_ns", sa.BigInteger, nullable=False),
    sa.Column("note", sa.Text, nullable=False),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    crc(),
    sa.Index(None, "source", "at_ns"),
)

signal_minute: Final = sa.Table(
    "signal_minute",
    metadata,
    # What the metrics of an engine told in the minute from second `t_s` on, as the backend packs it. By the engine's
    # name: one that is known by its metrics alone is no source.
    sa.Column("source", sa.Text, primary_key=True),
    sa.Column("t_s", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("packed", sa.LargeBinary, nullable=False),
    crc(),
    sqlite_with_rowid=False,
)

attached_engine: Final = sa.Table(
    "attached_engine",
    metadata,
    # An engine of others that somebody attached on the page, and where it is (a JSON object).
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("spec", sa.Text, nullable=False),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
    crc(),
)

retention: Final = sa.Table(
    "retention",
    metadata,
    # What a source keeps, where that is not what all keep; NULL: no limit.
    sa.Column("source_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("max_age_s", sa.BigInteger),
    sa.Column("max_bytes", sa.BigInteger),
    sa.Column("changed_ns", sa.BigInteger, nullable=False),
    crc(),
    sa.ForeignKeyConstraint(["source_id"], ["source.source_id"], ondelete="CASCADE"),
)
