"""How the reading of an engine's metrics goes, in one word and one sentence: the same wherever it is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kvxray_backend.metrics.scraper import MISSED_BEFORE_STALE, TIMEOUT_S, ScrapeStatus

State = Literal["none", "reading", "failing"]


@dataclass(frozen=True, slots=True)
class MetricsState:
    """`is_stale`: what was read last no longer tells how things are. `last_s`: when that was, None for never."""

    state: State
    sentence: str
    last_s: float | None = None
    is_stale: bool = False


def metrics_state(*, is_read: bool, status: ScrapeStatus, every_s: float, now_s: float) -> MetricsState:
    """is_read: whether it has an address to read metrics from. now_s: Unix seconds."""
    if not is_read:
        return MetricsState("none", "It is not said where its metrics are, so none are read.")
    last_s, why = status.last_page_s, status.failure
    if last_s is None:
        return MetricsState("failing", f"No metrics yet: {why}.") if why else MetricsState("reading", "No metrics yet.")
    missing_s = now_s - last_s
    is_stale = missing_s > every_s * MISSED_BEFORE_STALE + TIMEOUT_S
    if why:
        return MetricsState("failing", f"The last {missing_s:.0f} s are missing: {why}.", last_s, is_stale)
    if is_stale:
        return MetricsState("failing", f"No metrics for {missing_s:.0f} s.", last_s, is_stale=True)
    return MetricsState("reading", f"Read every {every_s:g} s.", last_s)
