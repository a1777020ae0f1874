"""What the metrics of a watched engine say now, by the names of the overview; and how their reading goes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from kvxray_backend import overview_signals
from kvxray_backend.coverage_panels import NEEDED_SIGNALS
from kvxray_backend.figure import Figure
from kvxray_backend.metrics.state import metrics_state
from kvxray_backend.moments import iso_time_or_none
from kvxray_backend.observed.engine import ObservedEngine
from kvxray_backend.residency.answers import MetricsStateView
from kvxray_backend.residency.foreign_source import ForeignMoment

NO_METRICS = MetricsStateView(state="none", sentence="", last=None)


def signal_figures(engine: ObservedEngine) -> dict[str, Figure]:
    """Call with the engine's lock held."""
    if engine.watch is None or engine.watch.book.last_s is None:
        return dict(_not_told())
    return overview_signals.figures(engine.watch, time.time(), stale_after_s(engine))


@cache
def _not_told() -> Mapping[str, Figure]:
    return MappingProxyType(overview_signals.not_told())


def stale_after_s(engine: ObservedEngine) -> float:
    """As many readings missed as make what was read last a thing of the past."""
    return max(overview_signals.STALE_AFTER_S, 4 * engine.spec.every_s)


def metrics_view(engine: ObservedEngine) -> MetricsStateView:
    """Call with the engine's lock held."""
    spec = engine.spec
    told = metrics_state(
        is_read=bool(spec.metrics or spec.prometheus),
        status=engine.metrics_status,
        every_s=spec.every_s,
        now_s=time.time(),
    )
    last = iso_time_or_none(round(told.last_s * 1e9)) if told.last_s is not None else None
    return MetricsStateView(state=told.state, sentence=told.sentence, last=last)


def told_then(moment: ForeignMoment) -> tuple[dict[str, Figure], MetricsStateView]:
    """What metrics told at a moment of the past, and which reading that was."""
    then = moment.metrics
    if then is None:
        return {}, NO_METRICS
    last = iso_time_or_none(round(then.read_s * 1e9))
    return then.figures, MetricsStateView(state="reading", sentence=then.sentence, last=last)


def told_signals(engine: ObservedEngine) -> frozenset[str]:
    """Names of the signals that its metrics tell, of those that a panel needs. Call with the engine's lock held."""
    if engine.watch is None or engine.watch.book.last_s is None:
        return frozenset()
    return frozenset(name for name in NEEDED_SIGNALS if engine.watch.book.is_told(name))
