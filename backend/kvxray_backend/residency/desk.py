"""Who answers questions about sources that tell of hashes, or of metrics alone: finds the moment, and makes the answer.
One of a running backend.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from kvxray_engine.stream.residency_state import ResidencyState
from kvxray_engine.stream.schema import Name
from kvxray_storage.residency_history import hash_events

from kvxray_backend.api_types import EventView, MomentView
from kvxray_backend.backend import Backend
from kvxray_backend.moments import LIVE, Moment, Point, iso_time
from kvxray_backend.residency.answers import ResidencyHashView
from kvxray_backend.residency.events import ToldEvents, event_views, events_until, newest_events
from kvxray_backend.residency.foreign_source import ForeignMoment, ForeignSource
from kvxray_backend.residency.hash_view import HashQuestion, hash_view
from kvxray_backend.residency.past import ResidencyPast
from kvxray_backend.residency.present import PresentPictures, present
from kvxray_backend.residency.steps import stepped


class ResidencyDesk:
    """Safe to ask from any thread."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._pictures = PresentPictures()
        self._past = ResidencyPast(backend)

    def at(self, source: ForeignSource, moment: Moment) -> ForeignMoment:
        """Raises `NotStored`. What is only stored has its last moment for a present."""
        if moment.is_live and source.engine is not None:
            return present(self.backend, source, self._pictures)
        return self._past.at(source, moment)

    def events_until(self, source: ForeignSource, moment: Moment, limit: int) -> ToldEvents | None:
        """The last up to the moment; None where there is none. Raises `NotStored`."""
        if moment.is_live:
            return newest_events(self.backend, source, limit)
        return events_until(self.backend, source, self._past.point_of(source.name, moment), limit)

    def around(self, source: ForeignSource, epoch: int, moment: Moment) -> ForeignMoment:
        """What is known of hashes of that epoch: now where it is followed, else at the moment, or in the end of it."""
        if source.rank is not None and source.rank.epoch == epoch:
            return self.at(source, Moment())
        if not moment.is_live:
            return self._past.at(source, moment)
        return self._past.at(source, self._past.end_of(source.name, epoch))

    def step(self, source: ForeignSource, moment: Moment, by: Literal["event", "step"], n: int) -> MomentView:
        """The moment `n` events or batches away. Raises `NotStored`."""
        point = self._past.point_of(source.name, moment)
        key = self.backend.past.epoch(source.name, point.epoch).key
        seq = stepped(self.backend.database, key, point.seq, by, n)
        then = self._past.at(source, Moment(point=Point(point.epoch, seq)))
        assert then.columns is not None, "it is stored"
        return MomentView(at=then.at, time=iso_time(then.columns.t_ns), step=then.columns.step)

    def names(self, source: ForeignSource, moment: Moment, epoch: int | None) -> dict[int, Name] | None:
        """In whose name hashes were stored, by ordinal; None where that epoch is over. Raises `NotStored`."""
        if moment.is_live and source.engine is not None and source.rank is not None:
            with source.engine.lock:
                return dict(source.rank.followed.fold.names.names) if source.rank.epoch == epoch else None
        return dict(self._past.state_of(source, moment).names.names)

    def hash(
        self, source: ForeignSource, moment: Moment, question: HashQuestion, history: int = 0
    ) -> ResidencyHashView | None:
        """None: it is not known there. history: how many of its stored events to give. Raises `NotStored`."""
        then = self.at(source, moment)
        told = self._hash(source, moment, question, then)
        if told is None or not history:
            return told
        return told.model_copy(update={"history": self._history(then, told.ordinal, history)})

    def _hash(
        self, source: ForeignSource, moment: Moment, question: HashQuestion, then: ForeignMoment
    ) -> ResidencyHashView | None:
        if then.columns is None:
            return None
        if moment.is_live and source.engine is not None and source.rank is not None:
            with source.engine.lock:
                return _told(then, source.rank.followed.fold, question)
        return _told(then, self._past.state_of(source, moment), question)

    def _history(self, then: ForeignMoment, ordinal: int, limit: int) -> list[EventView]:
        key = self.backend.epoch_key(then.source.name, then.epoch)
        if key is None or then.epoch is None:
            return []
        last_seq = Point.parse(then.at).seq if then.at != LIVE else None
        rows = hash_events(self.backend.database, key, [ordinal], limit, last_seq)
        return event_views(self.backend, then, ToldEvents(then.epoch, rows))


def _told(then: ForeignMoment, fold: ResidencyState, question: HashQuestion) -> ResidencyHashView | None:
    assert then.columns is not None, "something is known"
    ordinal = question.answer(fold)
    if ordinal is None:
        return None
    name_of: Callable[[int], Name | None] = fold.names.names.get
    return hash_view(then.columns, ordinal, fold.hash_bytes, name_of, then.source.name, then.findings)
