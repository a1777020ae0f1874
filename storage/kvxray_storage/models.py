"""The tables of the event log, the same on SQLite and PostgreSQL. Only shapes: who writes and reads stands elsewhere.

Times are wall-clock nanoseconds (BIGINT). `seq` and `wire_seq` ranges include both ends. Hashes and encoded columns are
bytes and never numbers. JSON is text. A new table or column comes with a migration; a test compares the two.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

metadata: Final = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    }
)


def _key(*, primary: bool = True) -> list[sa.Column[int]]:
    """The two columns that name an epoch."""
    return [
        sa.Column("source_id", sa.Integer, primary_key=primary, autoincrement=False, nullable=False),
        sa.Column("epoch", sa.Integer, primary_key=primary, autoincrement=False, nullable=False),
    ]


def _of_epoch() -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["source_id", "epoch"], ["epoch.source_id", "epoch.epoch"], ondelete="CASCADE")


setting: Final = sa.Table(
    "setting",
    metadata,
    # What the database itself must remember, such as the key of its digests.
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.LargeBinary, nullable=False),
)

source: Final = sa.Table(
    "source",
    metadata,
    sa.Column("source_id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("labels", sa.Text, nullable=False),
    sa.Column("created_ns", sa.BigInteger, nullable=False),
)

epoch: Final = sa.Table(
    "epoch",
    metadata,
    *_key(),
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
    sa.ForeignKeyConstraint(["source_id"], ["source.source_id"], ondelete="CASCADE"),
    sa.UniqueConstraint("source_id", "incarnation"),
)

chunk: Final = sa.Table(
    "chunk",
    metadata,
    *_key(),
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
    # Events by kind, and the blocks touched: what lets a reader skip `data`, which therefore stands last in the row.
    sa.Column("counts", sa.LargeBinary, nullable=False),
    sa.Column("bits", sa.LargeBinary, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
    _of_epoch(),
    # Chunks of an epoch do not overlap: by their ends they are in the order of their events.
    sa.Index(None, "source_id", "epoch", "seq1"),
)

keyframe: Final = sa.Table(
    "keyframe",
    metadata,
    *_key(),
    # The state before event `seq` of message `wire_seq`: replay goes on with the chunks from there.
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("kind", sa.Text, primary_key=True),
    sa.Column("wire_seq", sa.BigInteger, nullable=False),
    sa.Column("t_ns", sa.BigInteger, nullable=False),
    sa.Column("state", sa.LargeBinary, nullable=False),
    _of_epoch(),
)

name: Final = sa.Table(
    "name",
    metadata,
    *_key(),
    # What the ordinal of a holder means. Kept apart from the chunks because it outlives them, and to be found by id.
    sa.Column("ordinal", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("id", sa.Text, nullable=False),
    # kind, parent, deadline, tenant, session, LoRA and salt as the stream tells them (a JSON array); secrets digested.
    sa.Column("detail", sa.Text, nullable=False),
    _of_epoch(),
    sa.Index(None, "source_id", "id"),
    sqlite_with_rowid=False,
)

request_chunk: Final = sa.Table(
    "request_chunk",
    metadata,
    *_key(),
    # Request `req` occurs in chunks that begin within wire_seq0..wire_seq1: one row a request and commit, so that
    # under load, when a commit holds many chunks, the rows do not multiply.
    sa.Column("req", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("wire_seq0", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("wire_seq1", sa.BigInteger, nullable=False),
    _of_epoch(),
    sqlite_with_rowid=False,
)

gap: Final = sa.Table(
    "gap",
    metadata,
    *_key(),
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
    _of_epoch(),
)

cursor: Final = sa.Table(
    "cursor",
    metadata,
    *_key(),
    # Everything before these numbers is durable or a recorded gap: what "acknowledged" means.
    sa.Column("next_wire_seq", sa.BigInteger, nullable=False),
    sa.Column("next_seq", sa.BigInteger, nullable=False),
    _of_epoch(),
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
    sa.Index(None, "source", "state", "at_ns"),
)
