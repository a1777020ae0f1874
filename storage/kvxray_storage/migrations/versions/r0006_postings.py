"""Postings of 256 neighbouring holders in one row, packed, instead of a row a holder: a tenth of the bytes.

Packed: u1 width, then in columns the low bytes of the ordinals, and the first and the last message of each, counted
from the row's `wire_seq0` in as many bytes as the width says. Names say what is not usual of holders, in a JSON object;
on the way back they say all of it again in an array, without a sum. Filters of hashes of a length that an older kvxray
does not know go on the way back: without one a chunk is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_ROWS_AT_ONCE = 2_000
_USUAL = {"kind": "request", "parent": -1, "deadline": 0, "tenant": "", "session": "", "lora": "", "salt": ""}
Row = dict[str, Any]

_RUN = sa.table("request_chunk", *map(sa.column, ("source_id", "epoch", "req", "wire_seq0", "wire_seq1")))
_POSTING = sa.table(
    "posting", *map(sa.column, ("source_id", "epoch", "bucket", "wire_seq0", "wire_seq1")),
    sa.column("packed", sa.LargeBinary()),
)  # fmt: skip
_CHUNK = sa.table("chunk", sa.column("num_bytes"), sa.column("hash_bits", sa.LargeBinary()))
_NAME = sa.table("name", *map(sa.column, ("source_id", "epoch", "ordinal", "detail", "crc")))


def upgrade() -> None:
    _create("posting", "bucket", sa.Column("packed", sa.LargeBinary(), nullable=False))
    _copy(sa.select(_RUN).order_by("source_id", "epoch", "wire_seq0", "req"), _packed, _POSTING)
    op.drop_table("request_chunk")


def downgrade() -> None:
    _create("request_chunk", "req")
    _copy(sa.select(_POSTING), _unpacked, _RUN)
    op.drop_table("posting")
    _say_in_full()
    _forget_short_filters()


def _create(name: str, third: str, *more: sa.Column[Any]) -> None:
    op.create_table(
        name,
        sa.Column("source_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("epoch", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column(third, sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("wire_seq0", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("wire_seq1", sa.BigInteger(), nullable=False),
        *more,
        sa.ForeignKeyConstraint(
            ["source_id", "epoch"], ["epoch.source_id", "epoch.epoch"], name=f"fk_{name}_epoch", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("source_id", "epoch", third, "wire_seq0", name=f"pk_{name}"),
        sqlite_with_rowid=False,
    )


def _copy(query: sa.Select[Any], turn: Callable[[Iterable[Any]], Iterator[Row]], target: sa.TableClause) -> None:
    """Rows turned into those of another table, some at a time: there may be millions."""
    connection = op.get_bind()
    some: list[Row] = []
    with connection.execute(query.execution_options(stream_results=True, yield_per=_ROWS_AT_ONCE)) as result:
        for row in turn(result):
            some.append(row)
            if len(some) == _ROWS_AT_ONCE:
                connection.execute(sa.insert(target), some)
                some = []
    if some:
        connection.execute(sa.insert(target), some)


def _packed(runs: Iterable[Any]) -> Iterator[Row]:
    """Of runs that begin with the same message."""
    for (source_id, epoch, wire_seq0, bucket), some in groupby(
        runs, lambda run: (run.source_id, run.epoch, run.wire_seq0, run.req // 256)
    ):
        ends = {run.req % 256: run.wire_seq1 for run in some}
        last = max(ends.values())
        width = next(width for width in (1, 2, 4, 8) if last - wire_seq0 < 256**width)
        messages = [0] * len(ends) + [end - wire_seq0 for end in ends.values()]
        packed = bytes([width, *ends]) + b"".join(number.to_bytes(width, "little") for number in messages)
        yield {
            "source_id": source_id, "epoch": epoch, "bucket": bucket, "wire_seq0": wire_seq0, "wire_seq1": last,
            "packed": packed,
        }  # fmt: skip


def _unpacked(postings: Iterable[Any]) -> Iterator[Row]:
    for row in postings:
        width = row.packed[0]
        count = (len(row.packed) - 1) // (1 + 2 * width)
        places = range(1 + count, len(row.packed), width)
        messages = [row.wire_seq0 + int.from_bytes(row.packed[at : at + width], "little") for at in places]
        for number, low in enumerate(row.packed[1 : 1 + count]):
            yield {
                "source_id": row.source_id, "epoch": row.epoch, "req": row.bucket * 256 + low,
                "wire_seq0": messages[number], "wire_seq1": messages[count + number],
            }  # fmt: skip


def _say_in_full() -> None:
    connection = op.get_bind()
    names = _NAME.c
    here = {name: names[name] == sa.bindparam(f"of_{name}") for name in ("source_id", "epoch", "ordinal")}
    update = sa.update(_NAME).where(*here.values()).values(detail=sa.bindparam("whole"), crc=None)
    query = sa.select(*(names[name] for name in here), names.detail).order_by(*(names[name] for name in here))
    with connection.execute(query.execution_options(stream_results=True, yield_per=_ROWS_AT_ONCE)) as result:
        for some in result.partitions():
            short = [(row, told) for row in some if isinstance(told := json.loads(row.detail), dict)]
            if short:
                connection.execute(update, [_in_full(row, told, here) for row, told in short])


def _in_full(row: Any, told: dict[str, Any], key: Iterable[str]) -> Row:
    whole = json.dumps(list((_USUAL | told).values()), ensure_ascii=False, separators=(",", ":"))
    return {**{f"of_{name}": getattr(row, name) for name in key}, "whole": whole}


def _forget_short_filters() -> None:
    bits, num_bytes = _CHUNK.c.hash_bits, _CHUNK.c.num_bytes
    values = {"num_bytes": num_bytes - sa.func.length(bits), "hash_bits": sa.null()}
    op.get_bind().execute(sa.update(_CHUNK).where(sa.func.substr(bits, 1, 1) == b"\0").values(values))
