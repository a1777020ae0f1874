"""Time travel and retention: where keyframes come from, sizes, what was pruned, rollups, bookmarks, hash look-ups.

On SQLite chunk and keyframe are copied, so that their large columns stay last in the row and small ones are read
without them. Epochs must not be: dropping the old table would take everything that refers to it along.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_COUNTERS = (
    "events steps step_us allocations references dereferences frees blocks_cached evictions_for_allocation "
    "evictions_explicit evictions_for_capacity evictions_other copies moves cache_clears requests_arrived "
    "requests_scheduled requests_resumed requests_finished requests_aborted requests_failed preemptions "
    "tokens_queried tokens_hit tokens_generated tokens_computed ttft_count ttft_us itl_count itl_us "
    "step_us_max ttft_us_max itl_us_max"
)
_HISTOGRAMS = "ttft_histogram itl_histogram"
_GAUGES = "unknown empty free cached active shared used holds held_slots empty_slots leaked leaked_only running waiting"
_OF_EPOCH = ("pruned_events", "pruned_chunks", "pruned_seq", "pruned_ns")


def _number(name: str, *, default: str | None = None) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=default is None, server_default=default)


def upgrade() -> None:
    _add_columns()
    _measure_what_is_stored()
    op.create_index("ix_chunk_source_id_epoch_t1_ns", "chunk", ["source_id", "epoch", "t1_ns"])
    op.create_index("ix_chunk_source_id_epoch_hash0", "chunk", ["source_id", "epoch", "hash0"])
    for table in ("rollup_1s", "rollup_1m"):
        _create_rollup(table)
    _create_bookmarks()
    _create_retention()


def _add_columns() -> None:
    origin = sa.Column("origin", sa.Text(), nullable=False, server_default="snapshot")
    rollup = sa.Column("rollup", sa.LargeBinary(), nullable=True)
    hash_bits = sa.Column("hash_bits", sa.LargeBinary(), nullable=True)
    _add("chunk", [(_number("num_bytes", default="0"), "counts"), (hash_bits, "data")])
    _add("keyframe", [(origin, "state"), (_number("num_bytes", default="0"), "state"), (rollup, "state")])
    op.add_column("epoch", sa.Column("first_descriptor", sa.Text(), nullable=True))
    for name in _OF_EPOCH:
        op.add_column("epoch", _number(name, default="0" if name in _OF_EPOCH[:2] else None))


def _add(table: str, columns: list[tuple[sa.Column[Any], str]]) -> None:
    """Each before another column, where that matters: a server keeps large columns apart from the row anyway."""
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    with op.batch_alter_table(table, recreate="always" if is_sqlite else "never") as altered:
        for column, before in columns:
            altered.add_column(column, insert_before=before if is_sqlite else None)


def _measure_what_is_stored() -> None:
    op.execute("UPDATE chunk SET num_bytes = length(counts) + length(bits) + length(data)")
    op.execute("UPDATE keyframe SET num_bytes = length(state)")


def _create_rollup(table: str) -> None:
    op.create_table(
        table,
        sa.Column("source_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("t_s", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("epoch", sa.Integer(), autoincrement=False, nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in _COUNTERS.split()),
        *(sa.Column(name, sa.LargeBinary(), nullable=False) for name in _HISTOGRAMS.split()),
        sa.Column("usable_blocks", sa.BigInteger(), nullable=True),
        *(_number(f"{name}_{reading}") for name in _GAUGES.split() for reading in ("last", "min", "max")),
        sa.ForeignKeyConstraint(
            ["source_id", "epoch"], ["epoch.source_id", "epoch.epoch"], name=f"fk_{table}_epoch", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("source_id", "t_s", "epoch", name=f"pk_{table}"),
        sqlite_with_rowid=False,
    )


def _create_bookmarks() -> None:
    op.create_table(
        "bookmark",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("at_ns", sa.BigInteger(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_bookmark"),
    )
    op.create_index("ix_bookmark_source_at_ns", "bookmark", ["source", "at_ns"])


def _create_retention() -> None:
    op.create_table(
        "retention",
        sa.Column("source_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("max_age_s", sa.BigInteger(), nullable=True),
        sa.Column("max_bytes", sa.BigInteger(), nullable=True),
        sa.Column("changed_ns", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["source_id"], ["source.source_id"], name="fk_retention_source", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("source_id", name="pk_retention"),
    )


def downgrade() -> None:
    for table in ("retention", "bookmark", "rollup_1m", "rollup_1s"):
        op.drop_table(table)
    op.drop_index("ix_chunk_source_id_epoch_hash0", "chunk")
    op.drop_index("ix_chunk_source_id_epoch_t1_ns", "chunk")
    for name in (*reversed(_OF_EPOCH), "first_descriptor"):
        op.drop_column("epoch", name)
    # An older kvxray would not make them anew when a late message changes what came before them.
    op.execute("DELETE FROM keyframe WHERE origin = 'periodic'")
    with op.batch_alter_table("keyframe") as keyframe:
        for name in ("rollup", "num_bytes", "origin"):
            keyframe.drop_column(name)
    with op.batch_alter_table("chunk") as chunk:
        for name in ("hash_bits", "num_bytes"):
            chunk.drop_column(name)
