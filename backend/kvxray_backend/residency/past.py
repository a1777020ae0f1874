"""What was cached at moments of the past, of sources that tell of hashes: read from the event log."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import Final

from kvxray_engine.stream.residency_map import ResidencyMap
from kvxray_storage import history
from kvxray_storage.epoch_facts import pruned_until
from kvxray_storage.history import EpochRow
from kvxray_storage.residency_travel import residency_at
from kvxray_storage.time_travel import NotStored

from kvxray_backend.backend import COMMIT_WAIT_S, Backend
from kvxray_backend.moments import Moment, Point, iso_time
from kvxray_backend.residency.columns import columns_of
from kvxray_backend.residency.foreign_source import ForeignMoment, ForeignSource, capacity_of
from kvxray_backend.residency.metrics_then import MetricsThen, metrics_then
from kvxray_backend.residency.picture import ResidencyPicture
from kvxray_backend.source_name import engine_of
from kvxray_backend.stored_findings import finding_of

KEEP_S: Final = 10.0
MAX_STATES: Final = 8


class ResidencyPast:
    """The last few states asked for are kept: a page asks for the same moment several times."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, Point], tuple[float, ResidencyMap, ResidencyPicture]] = OrderedDict()

    def at(self, source: ForeignSource, moment: Moment) -> ForeignMoment:
        """The state after that moment; live: after the last event that is stored. Raises `NotStored`."""
        if source.kind == "metrics" and moment.t_ns is not None:
            return self._of_metrics(source, moment.t_ns)
        point, row = self._point_of(source.name, moment)
        fold, picture = self._state(source.name, point, row)
        found = history.findings_open_at(self._backend.database, source.name, point.epoch, fold.t_ns)
        capacity = capacity_of(source.engine, source.rank) if source.engine is not None else None
        is_of_now = source.rank is not None and source.rank.epoch == point.epoch
        return ForeignMoment(
            source=source,
            at=str(point),
            state="past",
            since_ns=fold.t_ns,
            epoch=point.epoch,
            picture=picture,
            now_ns=fold.t_ns,
            capacity=capacity,
            findings=tuple(finding_of(one) for one in found),
            metrics=self._metrics_then(source, moment.t_ns or fold.t_ns),
            is_capacity_of_then=is_of_now,
        )

    def _of_metrics(self, source: ForeignSource, t_ns: int) -> ForeignMoment:
        """Of an engine that tells no events."""
        told = self._metrics_then(source, t_ns)
        if told is None:
            raise NotStored(f"Nothing is kept of what the metrics of {source.name} told at {iso_time(t_ns)}.")
        return ForeignMoment(source, iso_time(t_ns), "past", t_ns, None, None, t_ns, None, (), told)

    def _metrics_then(self, source: ForeignSource, t_ns: int) -> MetricsThen | None:
        every_s = source.engine.spec.every_s if source.engine is not None else 0.0
        return metrics_then(self._backend.signals, engine_of(source.name), t_ns / 1e9, every_s)

    def state_of(self, source: ForeignSource, moment: Moment) -> ResidencyMap:
        """Nobody moves it on. Raises `NotStored`."""
        point, row = self._point_of(source.name, moment)
        return self._state(source.name, point, row)[0]

    def point_of(self, source: str, moment: Moment) -> Point:
        """The event that a moment stands for. Raises `NotStored`."""
        return self._point_of(source, moment)[0]

    def end_of(self, source: str, epoch: int) -> Moment:
        """The last moment of an epoch. Raises `NotStored`."""
        last_seq = self._backend.past.epoch(source, epoch).last_seq
        if last_seq is None:
            raise NotStored(self._why_nothing(source))
        return Moment(point=Point(epoch, last_seq))

    def _point_of(self, source: str, moment: Moment) -> tuple[Point, EpochRow]:
        rows = [row for row in history.epochs(self._backend.database, source) if row.last_seq is not None]
        if self._may_wait(rows, moment):
            self._backend.log.flush(COMMIT_WAIT_S)
            rows = [row for row in history.epochs(self._backend.database, source) if row.last_seq is not None]
        if moment.is_live:
            if not rows:
                raise NotStored(self._why_nothing(source))
            last = rows[-1]
            assert last.last_seq is not None, "something is stored"
            return Point(last.epoch, last.last_seq), last
        point = self._backend.past.point_of(source, moment)
        return point, self._backend.past.epoch(source, point.epoch)

    def _may_wait(self, rows: list[EpochRow], moment: Moment) -> bool:
        """Whether what has happened by then is perhaps not committed yet."""
        if moment.is_live or self._backend.observed.all == []:
            return False
        if moment.point is not None:
            last = rows[-1] if rows else None
            return last is None or moment.point > Point(last.epoch, last.last_seq or 0)
        return (moment.t_ns or 0) > self._backend.clock.wall_ns() - int(COMMIT_WAIT_S * 1e9)

    def _state(self, source: str, point: Point, row: EpochRow) -> tuple[ResidencyMap, ResidencyPicture]:
        with self._lock:
            kept = self._kept.get((source, point))
            if kept is None or time.monotonic() - kept[0] > KEEP_S:
                fold = residency_at(self._backend.database, row.key, point.seq)
                kept = time.monotonic(), fold, ResidencyPicture(columns_of(fold))
                self._kept[source, point] = kept
            self._kept.move_to_end((source, point))
            while len(self._kept) > MAX_STATES:
                self._kept.popitem(last=False)
            return kept[1], kept[2]

    def _why_nothing(self, source: str) -> str:
        until_ns = pruned_until(self._backend.database, source)
        if until_ns is None:
            return f"Nothing is stored of the source {source} yet."
        return (
            f"Nothing is stored of the source {source} any more: what it told was pruned, up to {iso_time(until_ns)}."
        )
