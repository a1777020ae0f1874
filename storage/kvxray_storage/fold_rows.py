"""What the writer's fold makes, as statements: keyframes and rollups. All of it may be repeated, and made again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import sqlalchemy as sa

from kvxray_storage import models
from kvxray_storage.epoch_directory import of_epoch
from kvxray_storage.records import EpochKey, Keyframe
from kvxray_storage.rollup_book import NS, SPANS, RollupBook, RollupRow
from kvxray_storage.rollup_columns import VALUE_COLUMNS
from kvxray_storage.row_sums import summed
from kvxray_storage.state_kinds import holds_a_state
from kvxray_storage.upserts import Row, insert_into, upsert_into

TABLES: Final = {1: models.rollup_1s, 60: models.rollup_1m}
_KEY: Final = ["source_id", "t_s", "epoch"]
_COPIED: Final = ("seq", "wire_seq", "t_ns", "kind", "origin", "rollup", "state")


@dataclass(frozen=True, slots=True, eq=False)
class OpenRollup:
    """One row as it is now."""

    span: int
    values: Row


def touched_rollups(key: EpochKey, book: RollupBook) -> list[OpenRollup]:
    """Rows of the book that changed since they were last asked for."""
    return [
        OpenRollup(span, summed(TABLES[span], {**_key_row(key), "t_s": start, **row.values()}))
        for span, start, row in book.take_touched()
    ]


def write_rollups(connection: sa.Connection, rollups: Sequence[OpenRollup]) -> None:
    """The last one of each row counts."""
    for span in SPANS:
        rows = {tuple(one.values[name] for name in _KEY): one.values for one in rollups if one.span == span}
        if rows:
            connection.execute(_upsert_rollups(connection.dialect.name, span), list(rows.values()))


@cache
def _upsert_rollups(dialect: str, span: int) -> sa.Insert:
    """Made once: the table is so wide that making it costs more than running it."""
    return upsert_into(dialect, TABLES[span], _KEY, (*VALUE_COLUMNS, "crc"))


def read_rollup(connection: sa.Connection, key: EpochKey, span: int, start: int) -> RollupRow | None:
    """A row as it is stored."""
    table = TABLES[span]
    query = sa.select(table).where(*of_epoch(table, key), table.c.t_s == start)
    found = connection.execute(query).one_or_none()
    return None if found is None else RollupRow.from_values(dict(found._mapping))


def write_keyframes(connection: sa.Connection, keyframes: Iterable[Keyframe]) -> None:
    """Where two stand before the same event, the engine's own counts."""
    table = models.keyframe
    rows = [_keyframe_row(frame) for frame in keyframes]
    if not rows:
        return
    insert = insert_into(connection.dialect.name, table)
    changed = {name: insert.excluded[name] for name in (*_COPIED, "num_bytes") if name not in ("seq", "kind")}
    is_ours = table.c.origin == "periodic"
    key = ["source_id", "epoch", "seq", "kind"]
    connection.execute(insert.on_conflict_do_update(index_elements=key, set_=changed, where=is_ours), rows)


def note_rollup(connection: sa.Connection, key: EpochKey, seq: int, rollup: bytes) -> None:
    """The engine's keyframe before event `seq` was folded up to."""
    table = models.keyframe
    here = sa.update(table).where(*of_epoch(table, key), table.c.seq == seq, holds_a_state())
    connection.execute(here.values(rollup=rollup))


def rewind(connection: sa.Connection, key: EpochKey, wire_seq: int) -> None:
    """What was folded from message `wire_seq` on no longer holds: it is to be folded again.

    The engine's keyframes stay; without their rollups none of them is taken for a place that was folded up to.
    """
    table = models.keyframe
    after = (*of_epoch(table, key), table.c.wire_seq > wire_seq)
    connection.execute(sa.delete(table).where(*after, table.c.origin == "periodic"))
    connection.execute(sa.update(table).where(*after).values(rollup=None))


def begin_anew(connection: sa.Connection, key: EpochKey) -> None:
    """Takes back all that was folded of the chunks that are stored. Rollups of chunks that are gone stay."""
    table, chunk = models.keyframe, models.chunk
    first = connection.execute(sa.select(sa.func.min(table.c.wire_seq)).where(*of_epoch(table, key))).scalar()
    if first is not None:
        rewind(connection, key, int(first))
    begin_ns = connection.execute(sa.select(sa.func.min(chunk.c.t0_ns)).where(*of_epoch(chunk, key))).scalar()
    if begin_ns is None:
        return
    for span, rollup in TABLES.items():
        start = int(begin_ns) // NS // span * span
        connection.execute(sa.delete(rollup).where(*of_epoch(rollup, key), rollup.c.t_s >= start))


def _keyframe_row(frame: Keyframe) -> Row:
    fields = {name: getattr(frame, name) for name in _COPIED}
    return {**_key_row(frame.key), **fields, "num_bytes": len(frame.state)}


def _key_row(key: EpochKey) -> Row:
    return {"source_id": key.source_id, "epoch": key.epoch}
