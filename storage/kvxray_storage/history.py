"""Reads of the event log, each with a short connection of its own: what is committed, as of one moment.

Event reads find their chunks by an index on `seq`, so that they cost what they return, not what is stored. They raise
`DamagedChunk` where stored bytes are not what was written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
import sqlalchemy as sa
from kvxray_engine.stream.codec import BadMessage
from kvxray_engine.stream.schema import Descriptor

from kvxray_storage import models
from kvxray_storage.block_filter import may_touch
from kvxray_storage.chunk import DamagedChunk, decode_chunk
from kvxray_storage.chunk_reader import end_of_chunk_at
from kvxray_storage.database import Database
from kvxray_storage.epoch_directory import of_epoch
from kvxray_storage.event_rows import ChunkEvents, EventRow
from kvxray_storage.records import EpochKey, FindingRow
from kvxray_storage.state_kinds import read_descriptor

Told = TypeVar("Told")

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
    stored of it; None when nothing is. is_unfinished: of an import that did not come to its end.
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
    is_unfinished: bool = False

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
    labels = [_told(row.labels, dict[str, str], f"The labels of the source {row.name}") for row in rows]
    return [SourceRow(row.source_id, row.name, told, row.created_ns) for row, told in zip(rows, labels, strict=True)]


def epochs(database: Database, source: str) -> list[EpochRow]:
    """The epochs of a source, the oldest first; none for a source that is not known."""
    table, of = models.epoch, models.source
    query = sa.select(table).join(of, of.c.source_id == table.c.source_id).where(of.c.name == source)
    with database.reading() as connection:
        rows = connection.execute(query.order_by(table.c.epoch)).all()
    return [
        EpochRow(
            EpochKey(row.source_id, row.epoch), row.incarnation, descriptor_of(row.descriptor, row.epoch),
            row.started_ns, row.ended_ns, *_left_of(row), row.last_ns, row.num_events - row.pruned_events,
            row.importing_ns is not None,
        )
        for row in rows
    ]  # fmt: skip


def descriptor_of(text: str, epoch: int) -> Descriptor:
    """What the row of an epoch says its source is. Raises DamagedChunk."""
    try:
        return read_descriptor(text.encode())
    except BadMessage as error:
        raise DamagedChunk(f"What epoch {epoch} is cannot be read: {error}") from error


def _left_of(row: Any) -> tuple[int | None, int | None]:
    """The first and last event of an epoch that retention left."""
    if row.pruned_seq is None or row.first_seq is None:
        return row.first_seq, row.last_seq
    if row.num_chunks == row.pruned_chunks and row.ended_ns is not None:
        return None, None
    return max(row.first_seq, min(row.pruned_seq + 1, row.last_seq)), row.last_seq


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


def findings(
    database: Database, source: str | None, state: str = "all", limit: int = 1000, kind: str | None = None
) -> list[FindingRow]:
    """Findings of a source (None: of all) that are `open`, `ended`, or `all`, of one kind or of every; newest first."""
    finding = models.finding
    query = sa.select(finding).where(*_of_findings(source, state, kind))
    with database.reading() as connection:
        rows = connection.execute(query.order_by(finding.c.at_ns.desc(), finding.c.id).limit(limit))
        return [_finding(row) for row in rows]


def num_findings(database: Database, source: str | None, state: str = "all", kind: str | None = None) -> int:
    """How many findings `findings` would give without its limit."""
    query = sa.select(sa.func.count()).select_from(models.finding).where(*_of_findings(source, state, kind))
    with database.reading() as connection:
        return int(connection.execute(query).scalar_one())


def _of_findings(source: str | None, state: str, kind: str | None) -> list[sa.ColumnElement[bool]]:
    assert state in ("open", "ended", "all"), f"a finding is open or ended, not {state}"
    finding = models.finding
    wanted = {"source": source, "state": state if state != "all" else None, "kind": kind}
    return [finding.c[name] == value for name, value in wanted.items() if value is not None]


def findings_open_at(database: Database, source: str, epoch: int, t_ns: int) -> list[FindingRow]:
    """Findings of an epoch that were open at a wall time, the newest first."""
    finding = models.finding
    query = sa.select(finding).where(
        finding.c.source == source,
        finding.c.epoch == epoch,
        finding.c.at_ns <= t_ns,
        sa.or_(finding.c.ended_ns.is_(None), finding.c.ended_ns > t_ns),
    )
    with database.reading() as connection:
        return [_finding(row) for row in connection.execute(query.order_by(finding.c.at_ns.desc(), finding.c.id))]


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


def tail(database: Database, key: EpochKey, limit: int, last_seq: int | None = None) -> list[EventRow]:
    """The last `limit` events of the epoch, or of those up to `last_seq`, in the order they happened (as `events` gives
    them): the newest is last.
    """
    chunk = models.chunk
    newest_first: list[list[EventRow]] = []
    missing = limit
    with database.reading() as connection:
        begun = (*of_epoch(chunk, key), *_begun_by(key, last_seq))
        query = sa.select(chunk.c.data).where(*begun).order_by(chunk.c.seq1.desc())
        for found in _decoded(connection, query):
            end = len(found) if last_seq is None else int(np.searchsorted(found.seqs(), last_seq, side="right"))
            positions = np.arange(max(0, end - missing), end)
            newest_first.append(_named_rows(connection, key, found, positions))
            missing -= len(positions)
            if missing <= 0:
                break
    return [row for rows in reversed(newest_first) for row in rows]


def block_history(
    database: Database, key: EpochKey, block_id: int, limit: int, last_seq: int | None = None
) -> list[EventRow]:
    """The last `limit` events (of those up to `last_seq`) that name the block, the newest first.

    Reads the filter of every chunk back to the oldest event it returns, and the chunks that may hold the block.
    """
    rows: list[EventRow] = []
    with database.reading() as connection:
        for found in _touching(connection, key, block_id, last_seq):
            positions = found.positions_of_block(block_id)[::-1]
            if last_seq is not None:
                positions = positions[found.seqs()[positions] <= last_seq]
            positions = positions[: limit - len(rows)]
            rows += _named_rows(connection, key, found, positions)
            if len(rows) >= limit:
                break
    return rows


def _decoded(connection: sa.Connection, query: sa.Select[Any]) -> Iterator[ChunkEvents]:
    """Chunks one by one: a reader that has enough stops, and no more are fetched."""
    with connection.execute(query.execution_options(stream_results=True, yield_per=1)) as result:
        for row in result:
            yield ChunkEvents(decode_chunk(row.data))


def _begun_by(key: EpochKey, last_seq: int | None) -> tuple[sa.ColumnElement[bool], ...]:
    """The condition that a chunk has events up to `last_seq`; None: any. It goes by the ends of chunks, which are
    indexed, so that those that come later are not looked at.
    """
    if last_seq is None:
        return ()
    chunk = models.chunk
    return chunk.c.seq0 <= last_seq, chunk.c.seq1 <= end_of_chunk_at(key, last_seq)


def _touching(connection: sa.Connection, key: EpochKey, block_id: int, last_seq: int | None) -> Iterator[ChunkEvents]:
    """Chunks that may name the block, the newest first; filters are read in pages, data only where one says perhaps."""
    chunk = models.chunk
    here = (*of_epoch(chunk, key), *_begun_by(key, last_seq))
    query = sa.select(chunk.c.bits, chunk.c.wire_seq0).where(*here).order_by(chunk.c.seq1.desc())
    with connection.execute(query.execution_options(stream_results=True, yield_per=_FILTERS_AT_ONCE)) as result:
        for row in result:
            if may_touch(row.bits, block_id):
                data = sa.select(chunk.c.data).where(*of_epoch(chunk, key), chunk.c.wire_seq0 == row.wire_seq0)
                yield ChunkEvents(decode_chunk(connection.execute(data).scalar_one()))


def _named_rows(
    connection: sa.Connection, key: EpochKey, found: ChunkEvents, positions: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> list[EventRow]:
    return found.rows(positions, names_of(connection, key, found.named_at(positions)))


def names_of(connection: sa.Connection, key: EpochKey, ordinals: list[int]) -> dict[int, str]:
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
        subjects=_told(values["subjects"], dict[str, Any], f"The finding {row.id}"),
        numbers=_told(values["numbers"], dict[str, Any], f"The finding {row.id}"),
    )


def _told(text: str, shape: type[Told], what: str) -> Told:
    try:
        return msgspec.json.decode(text, type=shape)
    except msgspec.MsgspecError as error:
        raise DamagedChunk(f"{what} cannot be read: {error}.") from error
