"""Who answers questions about sources that tell of hashes, or of metrics alone: finds the moment, and makes the answer.
One of a running backend.
"""

from __future__ import annotations

from collections.abc import Callable

from kvxray_engine.stream.residency_state import ResidencyState
from kvxray_engine.stream.schema import Name

from kvxray_backend.backend import Backend
from kvxray_backend.moments import Moment
from kvxray_backend.residency.answers import ResidencyHashView
from kvxray_backend.residency.foreign_source import ForeignMoment, ForeignSource
from kvxray_backend.residency.hash_view import HashQuestion, hash_view
from kvxray_backend.residency.past import ResidencyPast
from kvxray_backend.residency.present import PresentPictures, present


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

    def hash(self, source: ForeignSource, moment: Moment, question: HashQuestion) -> ResidencyHashView | None:
        """None: it is not known there. Raises `NotStored`."""
        then = self.at(source, moment)
        if then.columns is None:
            return None
        if moment.is_live and source.engine is not None and source.rank is not None:
            with source.engine.lock:
                return _told(then, source.rank.followed.fold, question)
        return _told(then, self._past.state_of(source, moment), question)


def _told(then: ForeignMoment, fold: ResidencyState, question: HashQuestion) -> ResidencyHashView | None:
    assert then.columns is not None, "something is known"
    ordinal = question.answer(fold)
    if ordinal is None:
        return None
    name_of: Callable[[int], Name | None] = fold.names.names.get
    return hash_view(then.columns, ordinal, fold.hash_bytes, name_of, then.source.name, then.findings)
