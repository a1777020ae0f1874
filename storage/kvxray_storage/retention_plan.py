"""Reads what retention decides from, and makes a plan of it. Changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from kvxray_engine.stream.codec import BadMessage

from kvxray_storage import models
from kvxray_storage.database import Database
from kvxray_storage.epoch_directory import of_epoch
from kvxray_storage.epoch_fold import KEYFRAME_ROWS
from kvxray_storage.fold_rows import TABLES
from kvxray_storage.records import EpochKey
from kvxray_storage.retention import (
    OUTLIVES,
    Cut,
    Edge,
    Limits,
    Rules,
    StoredFrame,
    cuts_by_age,
    cuts_by_size,
    merged,
    thinned,
    to_free,
)
from kvxray_storage.state_kinds import holds_a_state, read_descriptor
from kvxray_storage.storage_size import bytes_by_source, measure

NS: Final = 10**9


@dataclass(frozen=True, slots=True)
class OldRollups:
    """Rollups of a source that begin before second `before_s`."""

    source_id: int
    span: int
    before_s: int


@dataclass(frozen=True, slots=True)
class Plan:
    """What goes. `frames`: keyframes by epoch. `findings_before_ns`: of each source's name, those that ended earlier.
    `excess`: bytes too many when it was made; `is_short`: cutting events alone does not free them. `alerts_before_ns`:
    alerts that were over earlier go, None: none do.
    """

    cuts: list[Cut]
    frames: dict[EpochKey, list[int]]
    rollups: list[OldRollups]
    findings_before_ns: dict[str, int]
    excess: int = 0
    is_short: bool = False
    alerts_before_ns: int | None = None

    def __bool__(self) -> bool:
        return bool(self.cuts or self.frames or self.rollups or self.is_short)


@dataclass(frozen=True, slots=True)
class _Epoch:
    """An epoch of which chunks are left. `numbers`: so many each of its events takes on the average, since those of
    batches of hashes jump.
    """

    key: EpochKey
    descriptor: str
    oldest_ns: int
    last_ns: int
    numbers: int


def make_plan(
    database: Database,
    everyone: Limits,
    now_ns: int,
    followed: Collection[EpochKey],
    growth: int = 0,
    only: Mapping[int, Limits] | None = None,
) -> Plan:
    """followed: epochs that may go on. growth: bytes that wait for room in the whole database. only: nothing else goes
    than of these sources, and they keep what is said here, whatever they kept otherwise.
    """
    with database.reading() as connection:
        rules = Rules(everyone, {**limits_of_sources(connection), **(only or {})})
        sources = _sources(connection, only)
        epochs = [epoch for epoch in _epochs(connection) if epoch.key.source_id in sources]
        cuts = _by_age(connection, rules, epochs, now_ns, followed)
        by_size, excess, is_short = _by_size(database, connection, rules, epochs, followed, growth)
        return Plan(
            cuts=merged([*cuts, *by_size]),
            frames=_thinned(connection, epochs, now_ns),
            rollups=_old_rollups(connection, rules, sources, now_ns),
            findings_before_ns=_findings_before(rules, sources, now_ns),
            excess=excess,
            is_short=is_short and not cuts,
            alerts_before_ns=_alerts_before(everyone, now_ns) if only is None else None,
        )


def limits_of_sources(connection: sa.Connection) -> dict[int, Limits]:
    """What stands in the database of sources that keep something else than all do."""
    table = models.retention
    query = sa.select(table.c.source_id, table.c.max_age_s, table.c.max_bytes)
    return {row.source_id: Limits(row.max_age_s, row.max_bytes) for row in connection.execute(query)}


def _sources(connection: sa.Connection, only: Collection[int] | None) -> dict[int, str]:
    """The name of each source that anything may go of."""
    source = models.source
    rows = connection.execute(sa.select(source.c.source_id, source.c.name))
    return {row.source_id: row.name for row in rows if only is None or row.source_id in only}


def _epochs(connection: sa.Connection) -> list[_Epoch]:
    table = models.epoch
    columns = (
        table.c.source_id, table.c.epoch, table.c.descriptor, table.c.started_ns, table.c.pruned_ns, table.c.last_ns,
        table.c.first_seq, table.c.last_seq, table.c.num_events,
    )  # fmt: skip
    query = sa.select(*columns).where(table.c.num_chunks > table.c.pruned_chunks)
    return [
        _Epoch(
            EpochKey(row.source_id, row.epoch), row.descriptor,
            row.pruned_ns or 0, row.last_ns if row.last_ns is not None else row.started_ns,
            max(1, ((row.last_seq or 0) - (row.first_seq or 0)) // max(1, row.num_events)),
        )
        for row in connection.execute(query)
    ]  # fmt: skip


def _by_age(
    connection: sa.Connection, rules: Rules, epochs: list[_Epoch], now_ns: int, followed: Collection[EpochKey]
) -> list[Cut]:
    cuts: list[Cut] = []
    for epoch in epochs:
        age_s = rules.of(epoch.key.source_id).max_age_s
        if age_s is not None and epoch.oldest_ns < now_ns - age_s * NS:
            cuts += cuts_by_age(_edges(connection, epoch, followed), now_ns - age_s * NS)
    return cuts


def _by_size(
    database: Database,
    connection: sa.Connection,
    rules: Rules,
    epochs: list[_Epoch],
    followed: Collection[EpochKey],
    growth: int,
) -> tuple[list[Cut], int, bool]:
    """Cuts, bytes too many of the whole database, and whether cuts do not free those."""
    cuts: list[Cut] = []
    if any(limits.max_bytes is not None for limits in rules.sources.values()):
        for source_id, used in bytes_by_source(database).items():
            excess = to_free(used, rules.of(source_id).max_bytes)
            cuts += cuts_by_size(
                [_edges(connection, epoch, followed) for epoch in epochs if epoch.key.source_id == source_id], excess
            )
    limit = rules.everyone.max_bytes
    excess = to_free(measure(database).used, limit, growth) if limit is not None else 0
    of_all = cuts_by_size([_edges(connection, epoch, followed) for epoch in epochs], excess)
    return cuts + of_all, excess, sum(cut.num_bytes for cut in of_all) < excess


def _edges(connection: sa.Connection, epoch: _Epoch, followed: Collection[EpochKey]) -> Iterator[Edge]:
    """In order, each with what lies between it and the one before; read as they are asked for."""
    key, begin, frame_bytes = epoch.key, -1, 0
    for frame in _frames(connection, key):
        edge = _edge(connection, key, begin, frame, frame_bytes)
        if edge.num_chunks or begin >= 0:
            yield edge
        begin, frame_bytes = frame.wire_seq, frame.num_bytes
    if key not in followed:
        yield _edge(connection, key, begin, None, frame_bytes, epoch.last_ns)


def _frames(connection: sa.Connection, key: EpochKey) -> list[Any]:
    """Keyframes of the pool up to which everything was counted; all where that is true of none."""
    table = models.keyframe
    columns = (
        table.c.seq,
        table.c.wire_seq,
        table.c.t_ns,
        table.c.num_bytes,
        table.c.rollup.is_not(None).label("counted"),
    )
    query = sa.select(*columns).where(*of_epoch(table, key), holds_a_state())
    frames = connection.execute(query.order_by(table.c.wire_seq, table.c.seq)).all()
    return [frame for frame in frames if frame.counted] or list(frames)


def _edge(connection: sa.Connection, key: EpochKey, begin: int, frame: Any, frame_bytes: int, end_ns: int = 0) -> Edge:
    """The edge at this keyframe; None: at the end. frame_bytes: of the keyframe before."""
    chunk = models.chunk
    query = sa.select(sa.func.sum(chunk.c.num_bytes), sa.func.count(), sa.func.sum(chunk.c.num_events))
    query = query.where(*of_epoch(chunk, key), chunk.c.wire_seq0 >= begin)
    if frame is not None:
        query = query.where(chunk.c.wire_seq0 < frame.wire_seq)
    num_bytes, num_chunks, num_events = (int(number or 0) for number in connection.execute(query).one())
    seq, wire_seq, t_ns = (None, None, end_ns) if frame is None else (frame.seq, frame.wire_seq, frame.t_ns)
    return Edge(key, seq, wire_seq, t_ns, num_bytes + frame_bytes, num_chunks, num_events)


def _thinned(connection: sa.Connection, epochs: list[_Epoch], now_ns: int) -> dict[EpochKey, list[int]]:
    table = models.keyframe
    found: dict[EpochKey, list[int]] = {}
    for epoch in epochs:
        query = sa.select(table.c.seq, table.c.t_ns, table.c.origin).where(*of_epoch(table, epoch.key))
        rows = connection.execute(query.where(holds_a_state()).order_by(table.c.seq)).all()
        frames = [StoredFrame(row.seq, row.t_ns, row.origin == "periodic") for row in rows]
        gone = thinned(frames, _interval(epoch), now_ns)
        if gone:
            found[epoch.key] = gone
    return found


def _interval(epoch: _Epoch) -> int:
    try:
        return epoch.numbers * max(KEYFRAME_ROWS, read_descriptor(epoch.descriptor.encode()).num_blocks)
    except BadMessage:
        return epoch.numbers * KEYFRAME_ROWS


def _old_rollups(connection: sa.Connection, rules: Rules, sources: Mapping[int, str], now_ns: int) -> list[OldRollups]:
    found = []
    for source_id in sources:
        age_s = rules.of(source_id).max_age_s
        if age_s is None:
            continue
        for span, table in TABLES.items():
            before_s = now_ns // NS - OUTLIVES[span] * age_s
            oldest = sa.select(sa.func.min(table.c.t_s)).where(table.c.source_id == source_id)
            first = connection.execute(oldest).scalar()
            if first is not None and first < before_s:
                found.append(OldRollups(source_id, span, before_s))
    return found


def _alerts_before(everyone: Limits, now_ns: int) -> int | None:
    """They stay as long as findings do; None: for ever."""
    return now_ns - OUTLIVES[60] * everyone.max_age_s * NS if everyone.max_age_s is not None else None


def _findings_before(rules: Rules, sources: Mapping[int, str], now_ns: int) -> dict[str, int]:
    """Findings stay as long as minutes."""
    ages = {name: rules.of(source_id).max_age_s for source_id, name in sources.items()}
    return {name: now_ns - OUTLIVES[60] * age_s * NS for name, age_s in ages.items() if age_s is not None}
