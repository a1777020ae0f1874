"""What the metrics of a watched engine say now, as figures by the names of the overview; and how they are read."""

from __future__ import annotations

from kvxray_backend.figure import Figure, Unit
from kvxray_backend.metrics.hit_rates import hit_rate
from kvxray_backend.metrics.signals import SIGNALS
from kvxray_backend.moments import iso_time_or_none
from kvxray_backend.observed.engine import ObservedEngine
from kvxray_backend.residency.answers import MetricsStateView

WINDOW_S = 60.0


def signal_figures(engine: ObservedEngine | None) -> dict[str, Figure]:
    """Call with the engine's lock held. Empty where no metrics are read."""
    if engine is None or engine.watch is None or engine.watch.book.last_s is None:
        return {}
    book = engine.watch.book
    found = hit_rate(book, "prefix", WINDOW_S)
    told: dict[str, tuple[float | None, Unit]] = {
        "used": (book.value("kv_usage"), "ratio"),
        "hit_rate": (found.value if found else None, "ratio"),
        "running": (book.value("requests_running"), "requests"),
        "waiting": (book.value("requests_waiting"), "requests"),
        "preemptions_per_s": (book.rate("preemptions", WINDOW_S), "per_second"),
    }
    return {name: Figure(value=value, unit=unit, certainty="derived") for name, (value, unit) in told.items()}


def metrics_state(engine: ObservedEngine | None) -> MetricsStateView:
    """Call with the engine's lock held."""
    if engine is None or not (engine.spec.metrics or engine.spec.prometheus):
        return MetricsStateView(state="none", sentence="", last=None)
    status = engine.metrics_status
    last = iso_time_or_none(round(status.last_page_s * 1e9) if status.last_page_s else None)
    if status.num_failures or status.last_page_s is None:
        why = status.failure or "no page was read yet"
        return MetricsStateView(state="failing", sentence=f"The metrics cannot be read: {why}", last=last)
    return MetricsStateView(state="reading", sentence="", last=last)


def told_signals(engine: ObservedEngine | None) -> frozenset[str]:
    """Names of the signals that its metrics tell. Call with the engine's lock held."""
    if engine is None or engine.watch is None:
        return frozenset()
    return frozenset(name for name in SIGNALS if engine.watch.book.ways(name))
