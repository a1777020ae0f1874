"""Events of engines that tell of hashes, from the log and, the newest, from memory: one sequence, each event once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from kvxray_engine.stream.residency_descriptor import ALL_MEDIA, ANY_GROUP
from kvxray_engine.stream.residency_hashes import unpadded
from kvxray_engine.stream.schema import RESIDENCY_KINDS, UNKNOWN_U4, Descriptor, Kind
from kvxray_storage import history
from kvxray_storage.event_rows import EventRow
from kvxray_storage.hash_lookup import hashes_of
from kvxray_storage.history import EpochRow
from kvxray_storage.time_travel import NotStored

from kvxray_backend.api_types import EventView
from kvxray_backend.backend import Backend
from kvxray_backend.moments import Point, iso_time
from kvxray_backend.residency.foreign_source import ForeignMoment, ForeignSource

ALL: Final = "all"
"""The medium of a clear that names none."""


@dataclass(frozen=True, slots=True)
class ToldEvents:
    """Oldest first, all of one epoch."""

    epoch: int
    rows: list[EventRow]


def newest_events(backend: Backend, source: ForeignSource, limit: int) -> ToldEvents | None:
    """The newest of the epoch that is followed, or was last; None where there is none."""
    stored = _last_epoch(backend, source)
    live = _in_memory(source, None, limit)
    epoch = live.epoch if live is not None else stored.epoch if stored is not None else None
    if epoch is None:
        return None
    rows = live.rows if live is not None else []
    if len(rows) < limit and stored is not None and stored.epoch == epoch:
        before = rows[0].seq - 1 if rows else None
        older = history.tail(backend.database, stored.key, limit - len(rows), last_seq=before)
        rows = [*older, *rows]
    return ToldEvents(epoch, rows[-limit:])


def events_from(backend: Backend, source: ForeignSource, first: Point, limit: int) -> ToldEvents:
    """Up to `limit` from that number on. Raises `NotStored` where the source has no such epoch."""
    key = backend.epoch_key(source.name, first.epoch)
    rows = history.events(backend.database, key, first.seq, limit) if key is not None else []
    live = _in_memory(source, rows[-1].seq + 1 if rows else first.seq, limit)
    is_live = live is not None and live.epoch == first.epoch
    if key is None and not is_live:
        raise NotStored(f"The source {source.name} has no epoch {first.epoch}.")
    if live is not None and is_live:
        rows = [*rows, *live.rows]
    return ToldEvents(first.epoch, rows[:limit])


def events_until(backend: Backend, source: ForeignSource, point: Point, limit: int) -> ToldEvents:
    """The last up to that event."""
    key = backend.past.epoch(source.name, point.epoch).key
    return ToldEvents(point.epoch, history.tail(backend.database, key, limit, last_seq=point.seq))


def _in_memory(source: ForeignSource, seq: int | None, limit: int) -> ToldEvents | None:
    """Those from `seq` on, or the newest; None where nobody follows it."""
    if source.engine is None or source.rank is None:
        return None
    with source.engine.lock:
        tail, epoch = source.rank.tail, source.rank.epoch
        rows = tail.newest(limit, {})[::-1] if seq is None else tail.since(seq, limit, {})
    return ToldEvents(epoch, rows)


def _last_epoch(backend: Backend, source: ForeignSource) -> EpochRow | None:
    rows = [row for row in history.epochs(backend.database, source.name) if row.last_seq is not None]
    return rows[-1] if rows else None


def event_views(backend: Backend, then: ForeignMoment, told: ToldEvents) -> list[EventView]:
    """In words of the engine: which hash, after which, where and why. then: of about the time; it knows parents."""
    hashes = _hashes(backend, then, told)
    return [_view(then, row, told.epoch, hashes) for row in told.rows]


def _view(then: ForeignMoment, row: EventRow, epoch: int, hashes: dict[int, str]) -> EventView:
    descriptor = then.columns.descriptor if then.columns is not None else None
    ordinal = row.value if row.kind in RESIDENCY_KINDS else None
    parent = _parent(then, epoch, ordinal)
    return EventView(
        seq=str(Point(epoch, row.seq)),
        time=iso_time(row.t_ns),
        step=row.step,
        kind=row.kind.name,
        cause=row.cause.name,
        request_id=None,
        block_id=None,
        value=row.value,
        a0=row.a0,
        a1=row.a1,
        hash=hashes.get(ordinal) if ordinal is not None else None,
        parent=hashes.get(parent) if parent is not None else None,
        medium=_medium(row, descriptor),
        group=_group(row),
    )


def _parent(then: ForeignMoment, epoch: int, ordinal: int | None) -> int | None:
    """A hash has one parent, whenever it is stored. None: it has none, or nothing tells it any more."""
    if ordinal is None or then.columns is None or then.epoch != epoch:
        return None
    parent = then.columns.parent_of(ordinal)
    return parent if parent < UNKNOWN_U4 else None


def _medium(row: EventRow, descriptor: Descriptor | None) -> str | None:
    if row.kind not in RESIDENCY_KINDS and row.kind != Kind.CacheCleared:
        return None
    index = row.a0 if row.kind == Kind.CacheCleared else row.a1 >> 8 & 0xFF
    if row.kind == Kind.CacheCleared and index == ALL_MEDIA:
        return ALL
    return descriptor.pools[index].name if descriptor is not None and index < len(descriptor.pools) else None


def _group(row: EventRow) -> int | None:
    group = row.a1 & 0xFF
    return group if row.kind in RESIDENCY_KINDS and group != ANY_GROUP else None


def _hashes(backend: Backend, then: ForeignMoment, told: ToldEvents) -> dict[int, str]:
    """In hexadecimal, by ordinal: from memory where it is followed, else from the log."""
    ordinals = {row.value for row in told.rows if row.kind in RESIDENCY_KINDS and row.value is not None}
    ordinals |= {parent for ordinal in ordinals if (parent := _parent(then, told.epoch, ordinal)) is not None}
    found = _known_now(then.source, told.epoch, sorted(ordinals))
    missing = sorted(ordinals - found.keys())
    key = backend.epoch_key(then.source.name, told.epoch) if missing else None
    stored = hashes_of(backend.database, key, missing) if key is not None else {}
    return found | {ordinal: unpadded(data).hex() for ordinal, data in stored.items()}


def _known_now(source: ForeignSource, epoch: int, ordinals: Sequence[int]) -> dict[int, str]:
    if source.engine is None or source.rank is None:
        return {}
    with source.engine.lock:
        fold = source.rank.followed.fold
        if source.rank.epoch != epoch:
            return {}
        told = {ordinal: fold.hash_bytes(ordinal) for ordinal in ordinals}
    return {ordinal: data.hex() for ordinal, data in told.items() if data is not None}
