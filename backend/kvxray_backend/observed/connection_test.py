"""Tries an engine before it is attached: what is heard, what is read, and what would be known of it by that."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from kvxray_engine.errors import UserError

from kvxray_backend.attach_types import ConnectionView
from kvxray_backend.coverage import Known, coverage_of
from kvxray_backend.observed.spec import ObserveSpec
from kvxray_backend.observed.tried_events import HeardEvents, try_events
from kvxray_backend.observed.tried_metrics import ReadMetrics, try_metrics

MAX_AT_ONCE: Final = 4


class ConnectionTests:
    """A few at once; safe to call from any thread. Opens sockets of its own, and closes them: what is watched is not
    touched.
    """

    def __init__(self) -> None:
        self._turns = threading.BoundedSemaphore(MAX_AT_ONCE)

    def run(self, spec: ObserveSpec) -> ConnectionView:
        """Takes up to about six seconds. Raises `UserError` when too many run already."""
        if not self._turns.acquire(blocking=False):
            raise UserError(f"{MAX_AT_ONCE} engines are being tried already; try again in a few seconds.")
        try:
            with ThreadPoolExecutor(1, thread_name_prefix="kvxray-trying") as beside:
                metrics = beside.submit(try_metrics, spec)
                return connection_view(spec, try_events(spec), metrics.result())
        finally:
            self._turns.release()


_OF_EVENTS: Final = {
    "heard": "its events are heard",
    "silent": "its events are silent so far",
    "refused": "its events are not reached",
}
_OF_METRICS: Final = {"read": "its metrics are read", "failed": "its metrics cannot be read"}


def connection_view(spec: ObserveSpec, events: HeardEvents, metrics: ReadMetrics) -> ConnectionView:
    """What was found, put together. Pure."""
    is_heard, is_read = events.found.state == "heard", metrics.found.state == "read"
    known = Known(
        kind="hashes" if spec.events is not None else "metrics",
        is_heard=is_heard,
        is_whole=events.is_whole,
        metrics="reading" if is_read else "none" if metrics.found.state == "none" else "failing",
        signals=metrics.signals,
        has_capacity=spec.num_blocks is not None or metrics.found.capacity_blocks is not None,
        role=spec.role,
    )
    reachable = is_read or events.found.state in ("heard", "silent")
    return ConnectionView(
        reachable=reachable,
        sentence=_sentence(spec, events, metrics),
        events=events.found,
        metrics=metrics.found,
        coverage=coverage_of(known),
        findings=[*events.findings, *metrics.findings, *_reasons(events, metrics), *_contradictions(events, metrics)],
    )


def _sentence(spec: ObserveSpec, events: HeardEvents, metrics: ReadMetrics) -> str:
    told = (_OF_EVENTS.get(events.found.state, ""), _OF_METRICS.get(metrics.found.state, ""))
    said = " and ".join(one for one in told if one)
    return f"{spec.name}: {said}." if said else f"{spec.name}: nothing of it can be tried."


def _reasons(events: HeardEvents, metrics: ReadMetrics) -> list[str]:
    """Why its prefix cache does nothing, or less than one would think."""
    if metrics.watch is None:
        return []
    reasons = metrics.watch.reasons(events.found.block_size or 0, events.spec_kinds)
    return [f"{reason.sentence[:1].upper()}{reason.sentence[1:]}." for reason in reasons]


def _contradictions(events: HeardEvents, metrics: ReadMetrics) -> list[str]:
    heard, read = events.found.block_size, metrics.found.block_size
    if heard is None or read is None or heard == read:
        return []
    return [f"Its events tell of blocks of {heard} tokens and its metrics of {read}: are both of the same engine?"]
