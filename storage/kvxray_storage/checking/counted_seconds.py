"""Rollups against the events they were counted from: none may count less than the stored chunks that were folded.

More may be right: of a second whose other events retention took, or that an import cut in two. Whether a row is the one
that was written is told by its sum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import sqlalchemy as sa
from kvxray_engine.stream.event_times import timing_of

from kvxray_storage import models
from kvxray_storage.chunk_reader import ChunkPlace, StoredChunk
from kvxray_storage.chunk_rollup import add_events
from kvxray_storage.epoch_directory import of_epoch
from kvxray_storage.fold_rows import TABLES
from kvxray_storage.records import EpochKey
from kvxray_storage.rollup_book import RollupBook, RollupRow
from kvxray_storage.rollup_columns import COUNTERS

_AT_ONCE: Final = 400


class SecondsCheck:
    """`_folded`: messages before this number were counted; those after it may be still to be. Rows that retention has
    taken are not missed: they go oldest first.
    """

    def __init__(self, connection: sa.Connection, key: EpochKey, tell: Callable[[str, str, str], None]) -> None:
        """tell: (table, place, what is wrong)."""
        self._connection = connection
        self._key = key
        self._tell = tell
        self._book = RollupBook(lambda span, start: None)
        self._counted: dict[tuple[int, int], RollupRow] = {}
        self._folded = self._folded_to()
        self._first = {span: self._first_kept(table) for span, table in TABLES.items()}

    def pass_chunk(self, place: ChunkPlace, chunk: StoredChunk | None) -> None:
        if chunk is None or self._folded is None or place.wire_seq1 >= self._folded:
            return
        add_events(self._book, chunk.message.columns, timing_of(chunk.message).times)
        self._counted.update(((span, start), row) for span, start, row in self._book.take_touched())
        # Rows that the clock went back to are begun anew: they count less then, which is no fault.
        self._book.tidy()
        if len(self._counted) >= _AT_ONCE:
            self._compare()

    def finish(self) -> None:
        self._compare()

    def _compare(self) -> None:
        for span, table in TABLES.items():
            counted = {start: row for (of, start), row in self._counted.items() if of == span}
            stored = self._stored(table, list(counted))
            first = self._first[span]
            for start, row in counted.items():
                if first is None or start < first:
                    continue
                what = _lacking(stored.get(start), row)
                if what:
                    self._tell(table.name, f"t_s {start}", what)
        self._counted = {}

    def _stored(self, table: sa.Table, starts: list[int]) -> dict[int, list[int]]:
        columns = (table.c.t_s, *(table.c[name] for name in COUNTERS))
        query = sa.select(*columns).where(*of_epoch(table, self._key), table.c.t_s.in_(starts))
        return {row[0]: list(row[1:]) for row in self._connection.execute(query)}

    def _folded_to(self) -> int | None:
        frame = models.keyframe
        query = sa.select(sa.func.max(frame.c.wire_seq)).where(*of_epoch(frame, self._key), frame.c.rollup.is_not(None))
        last: int | None = self._connection.execute(query).scalar()
        return last

    def _first_kept(self, table: sa.Table) -> int | None:
        query = sa.select(sa.func.min(table.c.t_s)).where(table.c.source_id == self._key.source_id)
        first: int | None = self._connection.execute(query).scalar()
        return first


def _lacking(stored: list[int] | None, counted: RollupRow) -> str:
    if stored is None:
        return "it is missing, and events of it are stored"
    short = np.flatnonzero(np.array(stored, np.int64) < counted.counters)
    return f"{COUNTERS[short[0]]} counts less than the events that are stored" if len(short) else ""
