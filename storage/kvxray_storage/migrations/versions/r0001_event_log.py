"""The event log: sources and their epochs, chunks, keyframes, names, postings, gaps, cursors and findings."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _of_epoch(table: str) -> sa.ForeignKeyConstraint:
    columns = ["source_id", "epoch"]
    return sa.ForeignKeyConstraint(
        columns, ["epoch.source_id", "epoch.epoch"], name=f"fk_{table}_epoch", ondelete="CASCADE"
    )


def _key() -> list[sa.Column[int]]:
    return [
        sa.Column("source_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("epoch", sa.Integer(), autoincrement=False, nullable=False),
    ]


def upgrade() -> None:
    _create_sources_and_epochs()
    _create_chunks_and_keyframes()
    _create_names_and_postings()
    _create_gaps_and_cursors()
    _create_findings()


def _create_sources_and_epochs() -> None:
    op.create_table(
        "setting",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_setting"),
    )
    op.create_table(
        "source",
        sa.Column("source_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("source_id", name="pk_source"),
        sa.UniqueConstraint("name", name="uq_source_name"),
    )
    op.create_table(
        "epoch",
        *_key(),
        sa.Column("incarnation", sa.Text(), nullable=False),
        sa.Column("descriptor", sa.Text(), nullable=False),
        sa.Column("started_ns", sa.BigInteger(), nullable=False),
        sa.Column("ended_ns", sa.BigInteger(), nullable=True),
        sa.Column("first_seq", sa.BigInteger(), nullable=True),
        sa.Column("last_seq", sa.BigInteger(), nullable=True),
        sa.Column("last_ns", sa.BigInteger(), nullable=True),
        sa.Column("num_events", sa.BigInteger(), nullable=False),
        sa.Column("num_chunks", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["source_id"], ["source.source_id"], name="fk_epoch_source", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("source_id", "epoch", name="pk_epoch"),
        sa.UniqueConstraint("source_id", "incarnation", name="uq_epoch_source_id_incarnation"),
    )


def _create_chunks_and_keyframes() -> None:
    op.create_table(
        "chunk",
        *_key(),
        sa.Column("wire_seq0", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("wire_seq1", sa.BigInteger(), nullable=False),
        sa.Column("seq0", sa.BigInteger(), nullable=False),
        sa.Column("seq1", sa.BigInteger(), nullable=False),
        sa.Column("num_events", sa.Integer(), nullable=False),
        sa.Column("req0", sa.BigInteger(), nullable=False),
        sa.Column("num_req", sa.Integer(), nullable=False),
        sa.Column("hash0", sa.BigInteger(), nullable=False),
        sa.Column("num_hash", sa.Integer(), nullable=False),
        sa.Column("t0_ns", sa.BigInteger(), nullable=False),
        sa.Column("t1_ns", sa.BigInteger(), nullable=False),
        sa.Column("counts", sa.LargeBinary(), nullable=False),
        sa.Column("bits", sa.LargeBinary(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        _of_epoch("chunk"),
        sa.PrimaryKeyConstraint("source_id", "epoch", "wire_seq0", name="pk_chunk"),
    )
    op.create_index("ix_chunk_source_id_epoch_seq1", "chunk", ["source_id", "epoch", "seq1"])
    op.create_table(
        "keyframe",
        *_key(),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("wire_seq", sa.BigInteger(), nullable=False),
        sa.Column("t_ns", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.LargeBinary(), nullable=False),
        _of_epoch("keyframe"),
        sa.PrimaryKeyConstraint("source_id", "epoch", "seq", "kind", name="pk_keyframe"),
    )


def _create_names_and_postings() -> None:
    op.create_table(
        "name",
        *_key(),
        sa.Column("ordinal", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        _of_epoch("name"),
        sa.PrimaryKeyConstraint("source_id", "epoch", "ordinal", name="pk_name"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_name_source_id_id", "name", ["source_id", "id"])
    op.create_table(
        "request_chunk",
        *_key(),
        sa.Column("req", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("wire_seq0", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("wire_seq1", sa.BigInteger(), nullable=False),
        _of_epoch("request_chunk"),
        sa.PrimaryKeyConstraint("source_id", "epoch", "req", "wire_seq0", name="pk_request_chunk"),
        sqlite_with_rowid=False,
    )


def _create_gaps_and_cursors() -> None:
    op.create_table(
        "gap",
        *_key(),
        sa.Column("wire_seq0", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("wire_seq1", sa.BigInteger(), nullable=False),
        sa.Column("seq0", sa.BigInteger(), nullable=False),
        sa.Column("seq1", sa.BigInteger(), nullable=True),
        sa.Column("at_ns", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("repaired_ns", sa.BigInteger(), nullable=True),
        _of_epoch("gap"),
        sa.PrimaryKeyConstraint("source_id", "epoch", "wire_seq0", name="pk_gap"),
    )
    op.create_table(
        "cursor",
        *_key(),
        sa.Column("next_wire_seq", sa.BigInteger(), nullable=False),
        sa.Column("next_seq", sa.BigInteger(), nullable=False),
        _of_epoch("cursor"),
        sa.PrimaryKeyConstraint("source_id", "epoch", name="pk_cursor"),
    )


def _create_findings() -> None:
    op.create_table(
        "finding",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("seq0", sa.BigInteger(), nullable=False),
        sa.Column("seq1", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("at_ns", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("ended_ns", sa.BigInteger(), nullable=True),
        sa.Column("subjects", sa.Text(), nullable=False),
        sa.Column("numbers", sa.Text(), nullable=False),
        sa.Column("certainty", sa.Text(), nullable=False),
        sa.Column("sentence", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_finding"),
    )
    op.create_index("ix_finding_source_state_at_ns", "finding", ["source", "state", "at_ns"])


def downgrade() -> None:
    # Those that refer to an epoch go before it.
    for table in (
        "finding",
        "cursor",
        "gap",
        "request_chunk",
        "name",
        "keyframe",
        "chunk",
        "epoch",
        "source",
        "setting",
    ):
        op.drop_table(table)
