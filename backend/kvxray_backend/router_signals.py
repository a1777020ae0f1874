"""What the metrics of a router tell that its verdict rests on."""

from __future__ import annotations

from kvxray_backend.analysis.verdict_of_router import RouterSigns
from kvxray_backend.metrics.telling import Telling
from kvxray_backend.overview_signals import FIGURES, MINUTE_S, TEN_MINUTES_S


def router_signs(book: Telling) -> RouterSigns:
    """Of the present: call with the engine's lock held."""
    return RouterSigns(
        running=book.value("router_running"),
        requests_10m=_amount(book, "router_requests"),
        errors_10m=_amount(book, "router_errors"),
        endpoints=book.value("router_ready_endpoints"),
        subscribers=book.value("index_subscribers"),
        behind_s=_behind_s(book),
        affinity_lost=FIGURES["affinity_lost"].read(book),
    )


def _amount(book: Telling, signal: str) -> float | None:
    grown = book.grown(signal, TEN_MINUTES_S)
    return grown.amount if grown is not None else None


def _behind_s(book: Telling) -> float | None:
    """What waits, by how fast messages come."""
    waiting, rate = book.value("index_backlog"), book.rate("index_messages", MINUTE_S)
    if waiting == 0:
        return 0.0
    return waiting / rate if waiting is not None and rate else None
