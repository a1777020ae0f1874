"""Writes stretches of history as one `.kvx` file: what a colleague needs to see the same, and no secrets."""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
import sqlalchemy as sa
import zstandard
from kvxray_engine.stream.codec import BadMessage, Message, encode, encode_descriptor

from kvxray_storage import models
from kvxray_storage.database import Database
from kvxray_storage.epoch_directory import of_epoch
from kvxray_storage.exchange.container import KvxWriter
from kvxray_storage.exchange.records import (
    Bookmarks,
    EpochHead,
    FileHead,
    Findings,
    Frame,
    Hole,
    Messages,
    Part,
    Rollups,
    StoredBookmark,
    StoredFinding,
)
from kvxray_storage.exchange.stretch import Exported, NothingThere, Stretch, messages_of, state_before
from kvxray_storage.fold_rows import TABLES
from kvxray_storage.history import sources
from kvxray_storage.rollup_columns import VALUE_COLUMNS
from kvxray_storage.state_kinds import EitherState, dump_state, holds_a_state, load_told

ROWS_AT_ONCE: Final = 1_000
EVENTS_AT_ONCE: Final = 4_096
BYTES_AT_ONCE: Final = 8 << 20
_ZSTD_LEVEL: Final = 3
_NS: Final = 10**9
StoredPart = TypeVar("StoredPart", StoredFinding, StoredBookmark)


def export_kvx(database: Database, stretches: Sequence[Stretch], path: Path, now_ns: int) -> Exported:
    """Raises NothingThere, OSError, and DamagedChunk where stored bytes are not what was written."""
    labels = {source.name: source.labels for source in sources(database)}
    with KvxWriter(path) as file:
        file.write(FileHead(now_ns, metadata.version("kvxray")))
        counts = [_write_epoch(file, database, one, labels.get(one.source, {})) for one in stretches]
        there = [stretch for stretch, num_events in zip(stretches, counts, strict=True) if num_events]
        if not there:
            raise NothingThere
        for stretch in there:
            for findings in _findings(database, stretch):
                file.write(findings)
            for bookmarks in _bookmarks(database, stretch):
                file.write(bookmarks)
    return Exported(sum(counts), len(there))


def _write_epoch(file: KvxWriter, database: Database, stretch: Stretch, labels: dict[str, str]) -> int:
    """Nothing at all of one without messages."""
    num_events = 0
    times: list[int] = []
    for run in _runs(_in_order(database, stretch), stretch):
        if isinstance(run, _Run):
            if not times:
                _begin_epoch(file, stretch, labels, state_before(database, stretch, run.first))
            num_events += run.num_events
            times += [run.first.header.t0_wall_ns, run.last_ns]
            file.write(run.packed())
        elif times:
            file.write(run)
    for rollups in _rollups(database, stretch, min(times), max(times)) if times else ():
        file.write(rollups)
    return num_events


def _begin_epoch(file: KvxWriter, stretch: Stretch, labels: dict[str, str], state: EitherState) -> None:
    """What its source was where the stretch begins, and the state there."""
    epoch, descriptor = stretch.epoch, encode_descriptor(state.descriptor).decode()
    head = (stretch.source, labels, epoch.epoch, epoch.incarnation, descriptor, epoch.started_ns, epoch.ended_ns)
    file.write(EpochHead(*head))
    file.write(Frame(state.next_seq, state.next_wire_seq, state.t_ns, dump_state(state)))


def _in_order(database: Database, stretch: Stretch) -> Iterator[Message | Hole | Frame]:
    """By message number; of the same, first what the engine told of its state, then what is missing."""
    told: list[Iterator[tuple[int, int, Message | Hole | Frame]]] = [
        ((frame.wire_seq, 0, frame) for frame in _snapshots(database, stretch)),
        ((hole.wire_seq0, 1, hole) for hole in _holes(database, stretch)),
        ((message.header.wire_seq, 2, message) for message in messages_of(database, stretch)),
    ]
    return (one for _, _, one in heapq.merge(*told, key=lambda one: one[:2]))


class _Run:
    """Messages that follow each other, as many as whoever reads them takes at once."""

    def __init__(self, first: Message) -> None:
        self.first = first
        self.last_ns = self.num_events = self.num_bytes = 0
        self._told: list[bytes] = []

    def add(self, message: Message, data: bytes) -> None:
        self.last_ns = message.header.t0_wall_ns
        self.num_events += message.header.n
        self.num_bytes += len(data)
        self._told.append(data)

    @property
    def is_full(self) -> bool:
        return self.num_events >= EVENTS_AT_ONCE or self.num_bytes >= BYTES_AT_ONCE or len(self._told) >= EVENTS_AT_ONCE

    def packed(self) -> Messages:
        told = msgspec.msgpack.encode(self._told)
        return Messages(zstandard.ZstdCompressor(level=_ZSTD_LEVEL).compress(told))


def _runs(told: Iterator[Message | Hole | Frame], stretch: Stretch) -> Iterator[_Run | Hole | Frame]:
    names = {"source": stretch.source, "incarnation": stretch.epoch.incarnation}
    run: _Run | None = None
    for one in told:
        if run is not None and (run.is_full or not isinstance(one, Message)):
            yield run
            run = None
        if isinstance(one, Message):
            run = _Run(one) if run is None else run
            run.add(one, encode(msgspec.structs.replace(one.header, **names), one.columns))
        else:
            yield one
    if run is not None:
        yield run


def _holes(database: Database, stretch: Stretch) -> Iterator[Hole]:
    """Those that are still missing."""
    gap = models.gap
    query = sa.select(gap).where(
        *of_epoch(gap, stretch.epoch.key), gap.c.repaired_ns.is_(None), gap.c.seq0 <= stretch.last
    )
    query = query.where(sa.or_(gap.c.seq1.is_(None), gap.c.seq1 >= stretch.first)).order_by(gap.c.wire_seq0)
    with database.reading() as connection:
        for row in connection.execute(query).all():
            yield Hole(row.wire_seq0, row.wire_seq1, row.seq0, row.seq1, row.at_ns, row.reason)


def _snapshots(database: Database, stretch: Stretch) -> Iterator[Frame]:
    """What the engine itself told of its state on the way: after a gap nothing else can. A damaged one is passed over
    here as everywhere.
    """
    frame = models.keyframe
    query = sa.select(frame.c.seq, frame.c.wire_seq, frame.c.t_ns, frame.c.state).where(
        *of_epoch(frame, stretch.epoch.key), holds_a_state(), frame.c.origin == "snapshot",
        frame.c.seq > stretch.first, frame.c.seq <= stretch.last + 1,
    )  # fmt: skip
    ordered = query.order_by(frame.c.wire_seq, frame.c.seq).execution_options(stream_results=True, yield_per=1)
    with database.reading() as connection, connection.execute(ordered) as result:
        for row in result:
            with contextlib.suppress(BadMessage):
                yield Frame(row.seq, row.wire_seq, row.t_ns, _of_its_place(row, stretch))


def _of_its_place(frame: Any, stretch: Stretch) -> bytes:
    """An engine may call itself otherwise than it is called here, and stand where the batch before ended."""
    told = load_told(frame.state)
    place = (stretch.source, stretch.epoch.incarnation, frame.seq, frame.wire_seq)
    if (told.source, told.incarnation, told.next_seq, told.next_wire_seq) == place:
        return bytes(frame.state)
    told.source, told.incarnation, told.next_seq, told.next_wire_seq = place
    return dump_state(told)


def _rollups(database: Database, stretch: Stretch, begin_ns: int, end_ns: int) -> Iterator[Rollups]:
    """The seconds and minutes of the stretch as they were counted, also where it begins or ends in their middle."""
    for span, table in TABLES.items():
        query = sa.select(table.c.t_s, *(table.c[name] for name in VALUE_COLUMNS)).where(
            *of_epoch(table, stretch.epoch.key), table.c.t_s.between(begin_ns // _NS // span * span, end_ns // _NS)
        )
        with database.reading() as connection:
            rows: list[Any] = [(row[0], list(row[1:])) for row in connection.execute(query.order_by(table.c.t_s))]
        for at in range(0, len(rows), ROWS_AT_ONCE):
            yield Rollups(span, list(VALUE_COLUMNS), rows[at : at + ROWS_AT_ONCE])


def _findings(database: Database, stretch: Stretch) -> Iterator[Findings]:
    table = models.finding
    query = _of_stretch(_told(table, StoredFinding), table, stretch, table.c.seq1, table.c.seq0)
    with database.reading() as connection:
        yield from map(Findings, _at_once(StoredFinding(**row._mapping) for row in connection.execute(query)))


def _bookmarks(database: Database, stretch: Stretch) -> Iterator[Bookmarks]:
    table = models.bookmark
    query = _of_stretch(_told(table, StoredBookmark), table, stretch, table.c.seq, table.c.seq)
    with database.reading() as connection:
        yield from map(Bookmarks, _at_once(StoredBookmark(**row._mapping) for row in connection.execute(query)))


def _at_once(rows: Iterable[StoredPart]) -> Iterator[list[StoredPart]]:
    """Lists that fit a section each."""
    part: list[StoredPart] = []
    num_bytes = 0
    for row in rows:
        part.append(row)
        num_bytes += len(msgspec.msgpack.encode(row))
        if len(part) == ROWS_AT_ONCE or num_bytes >= BYTES_AT_ONCE:
            yield part
            part, num_bytes = [], 0
    if part:
        yield part


def _told(table: sa.Table, shape: type[Part]) -> sa.Select[Any]:
    """What a file tells of each row."""
    return sa.select(*(table.c[name] for name in shape.__struct_fields__))


def _of_stretch(
    query: sa.Select[Any], table: sa.Table, stretch: Stretch, last: sa.Column[int], first: sa.Column[int]
) -> sa.Select[Any]:
    here = (table.c.source == stretch.source, table.c.epoch == stretch.epoch.epoch)
    return query.where(*here, last >= stretch.first, first <= stretch.last).order_by(table.c.id)
