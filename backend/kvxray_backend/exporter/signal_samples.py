"""Samples of the signals of one engine, as its own metrics tell them: all ranks together."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import lru_cache
from typing import Any, Final

from kvxray_engine.server.prometheus_text import LabelText, number_text

from kvxray_backend.exporter.counting import Counted, Counting
from kvxray_backend.exporter.samples import Samples, label
from kvxray_backend.exporter.signal_metrics import SIGNAL_METRICS
from kvxray_backend.metrics.book import MetricsBook
from kvxray_backend.metrics.histograms import Buckets
from kvxray_backend.metrics.series import GaugeSeries
from kvxray_backend.metrics.signals import SIGNALS

MAX_PARTS: Final = 64

_Name = tuple[str, str]
"""A signal and its part."""


class SignalSamples:
    """Of one engine, page after page. Call with the engine's lock held."""

    def __init__(self) -> None:
        self._counters: dict[_Name, Counting[Any]] = {}

    def add(self, samples: Samples, book: MetricsBook, labels: LabelText) -> None:
        """What the last page of the engine tells."""
        told: dict[_Name, float | Buckets | None] = {
            (name, part): value
            for name, signal in SIGNALS.items()
            if signal.kind == "gauge" and book.is_told(name)
            for part, value in book.parts(name).items()
        }
        growing = _growing(book)
        self._counters = {name: self._counters.get(name) or Counting() for name in growing}
        told |= {name: self._counters[name].look(tellers) for name, tellers in growing.items()}
        for name in _bounded(told):
            _add(samples, name, told[name], labels)


def _growing(book: MetricsBook) -> dict[_Name, dict[Hashable, Counted[Any]]]:
    """By whom each is told, also by who is gone for a while: its count stays. Only what the last page tells at all."""
    found: dict[_Name, dict[Hashable, Counted[Any]]] = {}
    fresh: set[_Name] = set()
    for signal, part, teller, series in book.told_series():
        if not isinstance(series, GaugeSeries):
            found.setdefault((signal, part), {})[teller] = Counted(series.told, series.began_with)
            if series.last_s == book.last_s:
                fresh.add((signal, part))
    return {name: tellers for name, tellers in found.items() if name in fresh}


def _bounded(names: Mapping[_Name, object]) -> list[_Name]:
    """In order, of each signal so many parts at most. Of parts that read alike as labels the first stays."""
    kept: list[_Name] = []
    seen: dict[str, set[str]] = {}
    for signal, part in sorted(names):
        alike = seen.setdefault(signal, set())
        if label(part) not in alike and len(alike) < MAX_PARTS:
            alike.add(label(part))
            kept.append((signal, part))
    return kept


@lru_cache(maxsize=4_096)
def _at_most(bound: float) -> LabelText:
    return LabelText().plus(le=number_text(bound))


def _add(samples: Samples, name: _Name, value: float | Buckets | None, labels: LabelText) -> None:
    signal, part = name
    metric = SIGNAL_METRICS[signal].name
    if part:
        labels = labels.plus(part=label(part))
    if not isinstance(value, Buckets):
        samples.add(metric, value, labels)
        return
    if not samples.has_room(len(value.bounds) + 2):
        return
    for bound, count in zip(value.bounds, value.counts.tolist(), strict=True):
        samples.add(metric, count, labels.beside(_at_most(bound)), "_bucket")
    samples.add(metric, value.total, labels, "_sum")
    samples.add(metric, value.num, labels, "_count")
