"""Metrics out of the table of signals: what engines tell in their own metrics, under one name whatever the make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvxray_backend.exporter.metric import PREFIX, Metric, name_with_unit
from kvxray_backend.metrics.signal import Signal
from kvxray_backend.metrics.signals import TOPICS
from kvxray_backend.metrics.signals_page import FAMILY_WORDS

ENGINE_PREFIX: Final = f"{PREFIX}engine_"
# Prometheus wants no word for a type in a name, and what is 0 or 1 is no ratio.
_CALLED: Final = {
    "hit_rate_gauge": f"{ENGINE_PREFIX}hit_rate_as_told_ratio",
    "sleep_state": f"{ENGINE_PREFIX}sleep_state",
}


def metric_of(signal: Signal, topic: str) -> Metric:
    name = _CALLED.get(signal.name) or name_with_unit(signal.name, signal.unit, ENGINE_PREFIX)
    return Metric(
        name=f"{name}_total" if signal.kind == "counter" else name,
        type=signal.kind,
        unit=signal.unit,
        topic=topic,
        meaning=signal.meaning,
        certainty=signal.certainty,
        of=signal.name,
        told_by=", ".join(FAMILY_WORDS[family] for family in signal.told),
        parts="part" if signal.split_labels else "",
    )


SIGNAL_METRICS: Final[Mapping[str, Metric]] = {
    signal.name: metric_of(signal, topic) for topic, signals in TOPICS.items() for signal in signals
}
"""By the name of the signal."""
