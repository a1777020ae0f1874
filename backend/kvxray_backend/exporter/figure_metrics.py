"""Metrics out of the figures of the overview: whoever tells them, events or metrics, they have one name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvxray_backend import overview_signals
from kvxray_backend.exporter.figure_words import topic_of, words_of
from kvxray_backend.exporter.metric import Metric, name_with_unit
from kvxray_backend.figure import Unit
from kvxray_backend.overview_figures import not_told
from kvxray_backend.residency.figures import UNITS

_COUNTS_REQUESTS: Final = ("running", "waiting", "finished")


def _units() -> dict[str, Unit]:
    told: dict[str, Unit] = {name: figure.unit for name, figure in not_told().items()}
    return told | {name: made.unit for name, made in overview_signals.FIGURES.items()} | dict(UNITS)


def _metric(name: str, unit: Unit) -> Metric:
    called = name_with_unit(name, unit)
    if unit == "requests" and name.startswith(_COUNTS_REQUESTS):
        called += "_requests"
    return Metric(called, "gauge", unit, topic_of(name), words_of(name), certainty=None, of=name)


FIGURE_METRICS: Final[Mapping[str, Metric]] = {name: _metric(name, unit) for name, unit in _units().items()}
"""By the name of the figure."""
