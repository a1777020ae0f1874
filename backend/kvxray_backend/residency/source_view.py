"""How a source is followed that tells of hashes, or of nothing: its line in `/api/sources`."""

from __future__ import annotations

from kvxray_storage import history
from kvxray_storage.chunk import DamagedChunk
from kvxray_storage.database import Database
from kvxray_storage.history import EpochRow

from kvxray_backend.api_types import EpochView, SourceView
from kvxray_backend.figure import Figure
from kvxray_backend.moments import Point, iso_time_or_none
from kvxray_backend.observed.engine import ObservedEngine, ObservedRank
from kvxray_backend.past import span_of
from kvxray_backend.residency.foreign_source import ForeignSource
from kvxray_backend.views import descriptor_view, epoch_view


def foreign_source_view(database: Database, source: ForeignSource) -> SourceView:
    """Locks its engine for a moment."""
    rows = stored_epochs(database, source.name)
    if source.engine is None:
        return _stored(source.name, rows)
    with source.engine.lock:
        return _watched(source, source.engine, source.rank, rows)


def stored_epochs(database: Database, source: str) -> list[EpochRow]:
    """None of what is damaged: the log says so where it is read."""
    try:
        return history.epochs(database, source)
    except DamagedChunk:
        return []


def _stored(name: str, rows: list[EpochRow]) -> SourceView:
    last = rows[-1] if rows else None
    return SourceView(
        source=name,
        kind="hashes",
        engine=name,
        make="",
        labels=dict(last.descriptor.labels) if last is not None else {},
        state="past",
        since=iso_time_or_none(last.last_ns) if last is not None else None,
        epoch=last.epoch if last is not None else None,
        incarnation=last.incarnation if last is not None else None,
        last_seq=_last_seq(last),
        wire_seq=None,
        step=None,
        gaps=0,
        drops=None,
        bad_messages=0,
        lag_s=Figure(value=None, unit="seconds", certainty="not_observable"),
        descriptor=descriptor_view(last.descriptor) if last is not None else None,
        epochs=[epoch_view(span_of(row), None) for row in rows],
    )


def _last_seq(row: EpochRow | None) -> str | None:
    return str(Point(row.epoch, row.last_seq)) if row is not None and row.last_seq is not None else None


def _watched(
    source: ForeignSource, engine: ObservedEngine, rank: ObservedRank | None, rows: list[EpochRow]
) -> SourceView:
    followed = rank.followed if rank is not None else None
    fold = followed.fold if followed is not None else None
    epoch = rank.epoch if rank is not None else None
    last = str(Point(epoch, fold.next_seq - 1)) if fold is not None and epoch is not None and fold.next_seq else None
    times = followed.findings.times if followed is not None else None
    stale = tuple(one.id for one in engine.findings if one.kind == "stale_stream" and one.source == source.name)
    return SourceView(
        source=source.name,
        kind=source.kind,
        engine=engine.spec.name,
        make=engine.spec.make,
        labels=labels_of(engine, rank),
        state=engine.connection,
        since=iso_time_or_none(engine.since_ns),
        epoch=epoch,
        incarnation=fold.incarnation if fold is not None else None,
        last_seq=last,
        wire_seq=fold.next_wire_seq - 1 if fold is not None and fold.next_wire_seq else None,
        step=fold.step if fold is not None and fold.next_wire_seq else None,
        gaps=times["seq_gap"] if times is not None else 0,
        drops=None,
        bad_messages=times["unknown_or_partial_event"] if times is not None else 0,
        lag_s=_lag(
            followed.last_heard_ns if followed is not None else None, fold.t_ns if fold is not None else 0, stale
        ),
        descriptor=descriptor_view(fold.descriptor) if fold is not None else None,
        epochs=_epochs(rows, epoch, last),
    )


def labels_of(engine: ObservedEngine, rank: ObservedRank | None) -> dict[str, str]:
    """Those that whoever attached it gave it, and its rank where it is one of several."""
    labels = dict(engine.spec.labels)
    if engine.spec.role != "both":
        labels.setdefault("role", engine.spec.role)
    if rank is not None and rank.rank is not None and len(engine.ranks) > 1:
        labels.setdefault("dp_rank", str(rank.rank))
    return labels


def _lag(heard_ns: int | None, told_ns: int, stale: tuple[str, ...]) -> Figure:
    """From the time that the last batch tells to when it was heard: by two clocks."""
    value = (heard_ns - told_ns) / 1e9 if heard_ns is not None and told_ns else None
    return Figure(value=value, unit="seconds", certainty="derived", taints=stale)


def _epochs(rows: list[EpochRow], epoch: int | None, last_seq: str | None) -> list[EpochView]:
    return [epoch_view(span_of(row), last_seq if row.epoch == epoch else None) for row in rows]
