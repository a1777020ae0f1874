"""Reads of the event log, each with a short connection of its own: what is committed, as of one moment.

Event reads find their chunks by an index on `seq`, so that they cost what they return, not what is stored. They raise
`DamagedChunk` where stored bytes are not what was written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import sqlalchemy as sa
from kvxray_engine.stream.codec import decode_descriptor
from kvxray_engine.stream.schema import Descriptor

from kvxray_storage import models
from kvxray_storage.block_filter import may_touch
from kvxray_storage.chunk import decode_chunk
from kvxray_storage.database import Database
from kvxray_storage.epoch_directory import of_epoch
from kvxray_storage.event_rows import ChunkEvents, EventRow
from kvxray_storage.records import EpochKey, FindingRow

_NAMES_AT_ONCE: Final = 500
_FILTERS_AT_ONCE: Final = 256


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A source that was ever followed. `created_ns`: wall ns when it first was."""

    source_id: int
    name: str
    labels: dict[str, str]
    created_ns: int


@dataclass(frozen=True, slots=True)
class EpochRow:
    """One life of a source. `ended_ns` None: it is the one the source lives in. first_seq..last_seq, `last_ns`: what is
    stored of it; None when nothing is.
    """

    key: EpochKey
    incarnation: str
    descriptor: Descriptor
    started_ns: int
    ended_ns: int | None
    first_seq: int | None
    last_seq: int | None
    last_ns: int | None
    num_events: int

    @property
    def epoch(self) -> int:
        return self.key.epoch


@dataclass(frozen=True, slots=True)
class GapRow:
    """Messages wire_seq0..wire_seq1 and events seq0..seq1 (None = not known) that were not stored, or late."""

    wire_seq0: int
    wire_seq1: int
    seq0: int
    seq1: int | None
    at_ns: int
    reason: str
    repaired_ns: int | None


def sources(database: Database) -> list[SourceRow]:
    """All sources, the oldest first."""
    table = models.source
    with database.reading() as connection:
        rows = connection.execute(sa.select(table).order_by(table.c.source_id)).all()
    return [SourceRow(row.source_id, row.name, msgspec.json.decode(row.labels), row.created_ns) for row in rows]


def epochs(database: Database, source: str) -> list[EpochRow]:
    """The epochs of a source, the oldest first; none for a source that is not known."""
    table, of = models.epoch, models.source
    query = sa.select(table).join(of, of.c.source_id == table.c.source_id).where(of.c.name == source)
    with database.reading() as connection:
        rows = connection.execute(query.order_by(table.c.epoch)).all()
    return [
        EpochRow(
            EpochKey(row.source_id, row.epoch), row.incarnation, decode_descriptor(row.descriptor.encode()),
            row.started_ns, row.ended_ns, row.first_seq, row.last_seq, row.last_ns, row.num_events,
        )
        for row in rows
    ]  # fmt: skip


def gaps(database: Database, key: EpochKey, limit: int) -> list[GapRow]:
    """The newest gaps of an epoch, the newest first."""
    gap = models.gap
    columns = (gap.c.wire_seq0, gap.c.wire_seq1, gap.c.seq0, gap.c.seq1, gap.c.at_ns, gap.c.reason, gap.c.repaired_ns)
    query = sa.select(*columns).where(*of_epoch(gap, key)).order_by(gap.c.wire_seq0.desc()).limit(limit)
    with database.reading() as connection:
        return [GapRow(*row) for row in connection.execute(query)]


def count_gaps(database: Database, key: EpochKey) -> int:
    """Gaps of an epoch, repaired ones included."""
    with database.reading() as connection:
        query = sa.select(sa.func.count()).select_from(models.gap).where(*of_epoch(models.gap, key))
        return int(connection.execute(query).scalar_one())


def findings(database: Database, source: str | None, state: str = "all", limit: int = 1000) -> list[FindingRow]:
    """Findings of a source (None: of all) that are `open`, `ended`, or `all`; the newest first."""
    assert state in ("open", "ended", "all"), f"a finding is open or ended, not {state}"
    finding = models.finding
    query = sa.select(finding).order_by(finding.c.at_ns.desc(), finding.c.id).limit(limit)
    if source is not None:
        query = query.where(finding.c.source == source)
    if state != "all":
        query = query.where(finding.c.state == state)
    with database.reading() as connection:
        return [_finding(row) for row in connection.execute(query)]


def events(database: Database, key: EpochKey, first_seq: int, limit: int) -> list[EventRow]:
    """Up to `limit` events from number `first_seq` on, in order. Goes over gaps: `seq` may jump."""
    chunk = models.chunk
    query = sa.select(chunk.c.data).where(*of_epoch(chunk, key), chunk.c.seq1 >= first_seq).order_by(chunk.c.seq1)
    with database.reading() as connection:
        rows: list[EventRow] = []
        for found in _decoded(connection, query):
            positions = np.flatnonzero(found.seqs() >= first_seq)[: limit - len(rows)]
            rows += _named_rows(connection, key, found, positions)
            if len(rows) >= limit:
                break
    return rows


def tail(database: Database, key: EpochKey, limit: int) -> list[EventRow]:
    """The last `limit` events of the epoch, in the order they happened (as `events` gives them): the newest is last."""
    chunk = models.chunk
    query = sa.select(chunk.c.data).where(*of_epoch(chunk, key)).order_by(chunk.c.seq1.desc())
    newest_first: list[list[EventRow]] = []
    missing = limit
    with database.reading() as connection:
        for found in _decoded(connection, query):
            positions = np.arange(max(0, len(found) - missing), len(found))
            newest_first.append(_named_rows(connection, key, found, positions))
            missing -= len(positions)
            if missing <= 0:
                break
    return [row for rows in reversed(newest_first) for row in rows]


def block_history(database: Database, key: EpochKey, block_id: int, limit: int) -> list[EventRow]:
    """The last `limit` events that name the block, the newest first.

    Reads the filter of every chunk back to the oldest event it returns, and the chunks that may hold the block.
    """
    rows: list[EventRow] = []
    with database.reading() as connection:
        for found in _touching(connection, key, block_id):
            positions = found.positions_of_block(block_id)[::-1][: limit - len(rows)]
            rows += _named_rows(connection, key, found, positions)
            if len(rows) >= limit:
                break
    return rows


def _decoded(connection: sa.Connection, query: sa.Select[Any]) -> Iterator[ChunkEvents]:
    """Chunks one by one: a reader that has enough stops, and no more are fetched."""
    with connection.execute(query.execution_options(stream_results=True, yield_per=1)) as result:
        for row in result:
            yield ChunkEvents(decode_chunk(row.data))


def _touching(connection: sa.Connection, key: EpochKey, block_id: int) -> Iterator[ChunkEvents]:
    """Chunks that may name the block, the newest first; filters are read in pages, data only where one says perhaps."""
    chunk = models.chunk
    query = sa.select(chunk.c.bits, chunk.c.wire_seq0).where(*of_epoch(chunk, key)).order_by(chunk.c.seq1.desc())
    with connection.execute(query.execution_options(stream_results=True, yield_per=_FILTERS_AT_ONCE)) as result:
        for row in result:
            if may_touch(row.bits, block_id):
                here = sa.select(chunk.c.data).where(*of_epoch(chunk, key), chunk.c.wire_seq0 == row.wire_seq0)
                yield ChunkEvents(decode_chunk(connection.execute(here).scalar_one()))


def _named_rows(
    connection: sa.Connection, key: EpochKey, found: ChunkEvents, positions: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> list[EventRow]:
    ordinals = np.unique(found.holders_at(positions)).tolist()
    return found.rows(positions, _names(connection, key, ordinals))


def _names(connection: sa.Connection, key: EpochKey, ordinals: list[int]) -> dict[int, str]:
    """Ids of the holders whose names are known."""
    name = models.name
    known: dict[int, str] = {}
    for some in _slices(ordinals, _NAMES_AT_ONCE):
        query = sa.select(name.c.ordinal, name.c.id).where(*of_epoch(name, key), name.c.ordinal.in_(some))
        known.update((row.ordinal, row.id) for row in connection.execute(query))
    return known


def _slices(items: list[int], size: int) -> Iterable[list[int]]:
    return (items[at : at + size] for at in range(0, len(items), size))


def _finding(row: sa.Row[Any]) -> FindingRow:
    values = row._mapping
    copied = (
        "id", "kind", "severity", "source", "epoch", "seq0", "seq1", "state", "ended_ns", "certainty", "sentence",
    )  # fmt: skip
    return FindingRow(
        **{name: values[name] for name in copied},
        time_ns=values["at_ns"],
        subjects=msgspec.json.decode(values["subjects"]),
        numbers=msgspec.json.decode(values["numbers"]),
    )
