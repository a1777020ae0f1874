"""Reads an engine's metrics once, and says what they tell."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Final

from kvxray_backend.attach_types import MetricsFound
from kvxray_backend.metrics.configuration import configurations, pool_shape
from kvxray_backend.metrics.exposition import NotMetricsError, Page
from kvxray_backend.metrics.metrics_http import FetchError, metrics_http
from kvxray_backend.metrics.names import Family
from kvxray_backend.metrics.prometheus_answer import AnswerError
from kvxray_backend.metrics.prometheus_api import PrometheusApi
from kvxray_backend.metrics.reading import PageReading, read_page
from kvxray_backend.metrics.scraper import fetch_page
from kvxray_backend.observed.spec import Make, ObserveSpec
from kvxray_backend.quantities import counted
from kvxray_backend.sources.foreign.metrics_watch import MetricsWatch

TIMEOUT_S: Final = 4.5
_FAMILIES: Final[dict[Make, tuple[Family, ...]]] = {
    "vllm": ("vllm",), "sglang": ("sglang",), "trtllm": ("trtllm",), "router": ("router", "dynamo"),
}  # fmt: skip
"""What an engine of a make tells at least; the other makes tell what they like."""


@dataclass(slots=True)
class ReadMetrics:
    """`watch`: fed with the page; None: there is none. `signals`: names of those it tells."""

    found: MetricsFound
    watch: MetricsWatch | None = None
    signals: frozenset[str] = frozenset()
    findings: list[str] = field(default_factory=list)


def try_metrics(spec: ObserveSpec) -> ReadMetrics:
    """Takes up to about five seconds. Never raises for what comes from outside."""
    if spec.metrics is None and spec.prometheus is None:
        return ReadMetrics(MetricsFound(state="none", sentence="No address of metrics was given."))
    try:
        page = asyncio.run(_page(spec))
    except TimeoutError:
        return _failed(f"no whole answer within {TIMEOUT_S:g} s")
    except (FetchError, NotMetricsError, AnswerError, ValueError) as error:
        return _failed(str(error))
    return _told(spec, page)


async def _page(spec: ObserveSpec) -> Page:
    async with asyncio.timeout(TIMEOUT_S), metrics_http() as http:
        if spec.prometheus is not None:
            return await PrometheusApi(http, spec.prometheus, spec.match).page(time.time())
        assert spec.metrics is not None, "one of the two was given"
        return await fetch_page(http, spec.metrics, TIMEOUT_S)


def _failed(reason: str) -> ReadMetrics:
    return ReadMetrics(MetricsFound(state="failed", sentence=f"Metrics cannot be read: {reason.rstrip('.')}."))


def _told(spec: ObserveSpec, page: Page) -> ReadMetrics:
    reading = read_page(page)
    signals = frozenset(one.signal for one in reading.readings)
    watch = MetricsWatch(spec.name)
    watch.take(time.time(), page)
    shapes = [shape for one in configurations(page) if (shape := pool_shape(one)) is not None]
    sizes = {shape.block_size for shape in shapes}
    found = MetricsFound(
        state="read",
        sentence=_sentence(spec, page, reading, len(signals)),
        make=" and ".join(reading.families),
        signals=len(signals),
        capacity_blocks=watch.num_blocks,
        block_size=sizes.pop() if len(sizes) == 1 else None,
    )
    return ReadMetrics(found, watch, signals, _findings(spec, reading))


def _sentence(spec: ObserveSpec, page: Page, reading: PageReading, num_signals: int) -> str:
    if not page.samples:
        where = "That Prometheus has nothing under these labels." if spec.prometheus else "The page is empty."
        return f"{where} Nothing is told."
    told = f"{counted(num_signals, 'signal')} out of {counted(len(page.samples), 'number')}"
    if not num_signals:
        return f"It was read, and of its {counted(len(page.samples), 'number')} none is a metric that kvxray knows."
    return f"Read: {told}, by the metrics of {' and '.join(reading.families)}."


def _findings(spec: ObserveSpec, reading: PageReading) -> list[str]:
    expected = _FAMILIES.get(spec.make, ())
    if not reading.families or not expected or set(expected) & set(reading.families):
        return []
    return [f"Its metrics are those of {' and '.join(reading.families)}, and it was said to be {spec.make}."]
