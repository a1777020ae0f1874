"""The one table of signals: what can be known of an engine from its metrics, under names of our own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvxray_backend.metrics.signal import Kind, Signal
from kvxray_backend.metrics.signals_cache import FULLNESS, REUSE
from kvxray_backend.metrics.signals_requests import BLOCK_LIFE, LATENCY, QUEUE
from kvxray_backend.metrics.signals_router import INDEX, ROUTER
from kvxray_backend.metrics.signals_tiers import OFFLOAD
from kvxray_backend.metrics.signals_transfer import LMCACHE, TRANSFER

# By the heading they have in docs/signals.md.
TOPICS: Final[Mapping[str, tuple[Signal, ...]]] = {
    "How full the cache is": FULLNESS,
    "Reuse of prefixes": REUSE,
    "Queue and requests": QUEUE,
    "Times and sizes of requests": LATENCY,
    "Life of blocks": BLOCK_LIFE,
    "Offload and tiers": OFFLOAD,
    "Transfers between engines": TRANSFER,
    "LMCache": LMCACHE,
    "Router": ROUTER,
    "Index of the router": INDEX,
}
SIGNALS: Final[Mapping[str, Signal]] = {signal.name: signal for topic in TOPICS.values() for signal in topic}


def metric_kinds() -> dict[str, Kind]:
    """Every metric that a signal may be told by, by its canonical name."""
    return {
        name: signal.kind
        for signal in SIGNALS.values()
        for ways in signal.told.values()
        for way in ways
        for term in way.terms
        for name in term.names
    }
