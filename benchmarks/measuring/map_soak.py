"""Whether memory grows while the live page is watched for long: the server's, and the browser's after a collection.

A browser gives memory back when it likes to; garbage is collected before each reading, so that what is read is what is
kept. The renderer also keeps the answers to requests, 100 MB at most, for whoever inspects it as Playwright does: each
snapshot that the page fetches anew adds some megabytes to its memory, and none in a browser that is not inspected. The
slope is the median over all pairs of readings: a single high one does not turn it.
"""

from __future__ import annotations

import itertools
import statistics
from dataclasses import astuple, dataclass, fields
from typing import Any

import psutil
from playwright.sync_api import Browser, CDPSession, Page

from benchmarks.measuring.map_rig import tell

WARM_UP_SHARE = 0.1
MOST_WARM_UP_S = 120.0
READINGS = 50
LEAST_PAUSE_S = 0.2
COUNT_PAINTS = "() => { window.__painted = 0; __kvxray.map.onPaint(() => { window.__painted += 1; }); }"
UNITS = {
    "server_mb": "resident memory of the server",
    "renderer_mb": "resident memory of the browser's process of the page, its own only",
    "heap_mb": "JavaScript objects of the page",
    "buffers_mb": "what its typed arrays and pictures hold beside the objects",
    "nodes": "nodes of the page's documents",
    "listeners": "listeners to events on the page",
}


@dataclass(frozen=True, slots=True)
class Reading:
    """What is kept in memory at one moment."""

    at_s: float
    server_mb: float
    renderer_mb: float
    heap_mb: float
    buffers_mb: float
    nodes: float
    listeners: float


class MemoryReader:
    """Reads the memory of one page and of the server that it watches."""

    def __init__(self, browser: Browser, page: Page, server: psutil.Process) -> None:
        self._processes: CDPSession = browser.new_browser_cdp_session()
        self._inspected: CDPSession = page.context.new_cdp_session(page)
        self._inspected.send("Performance.enable")
        self._server = server

    def read(self, at_s: float) -> Reading:
        """After a collection of garbage in the page."""
        self._inspected.send("HeapProfiler.collectGarbage")
        told = {one["name"]: one["value"] for one in self._inspected.send("Performance.getMetrics")["metrics"]}
        return Reading(
            at_s, self._server.memory_info().rss / 1e6, self._renderer_mb(),
            told["JSHeapUsedSize"] / 1e6, self._inspected.send("Runtime.getHeapUsage")["backingStorageSize"] / 1e6,
            told["Nodes"], told["JSEventListeners"],
        )  # fmt: skip

    def _renderer_mb(self) -> float:
        """The page's: the largest, since a browser keeps spare ones. Without the pages of the program's own file, which
        come and go with the memory that the machine has left."""
        running = self._processes.send("SystemInfo.getProcessInfo")["processInfo"]
        kept = (psutil.Process(one["id"]).memory_info() for one in running if one["type"] == "renderer")
        return float(max(one.rss - one.shared for one in kept)) / 1e6


def soak(browser: Browser, page: Page, server: psutil.Process, minutes: float) -> dict[str, Any]:
    """Watches for so long after a warm-up; what memory was at its start and end, and how fast it grew."""
    reader = MemoryReader(browser, page, server)
    page.evaluate(COUNT_PAINTS)
    warm_up_s = min(MOST_WARM_UP_S, 60 * minutes * WARM_UP_SHARE)
    page.wait_for_timeout(1000 * warm_up_s)
    pause_s = max(LEAST_PAUSE_S, 60 * minutes / READINGS)
    painted, readings = page.evaluate("__painted"), [reader.read(0.0)]
    begun = page.evaluate("performance.now()")
    while readings[-1].at_s < 60 * minutes:
        page.wait_for_timeout(1000 * pause_s)
        readings.append(reader.read((page.evaluate("performance.now()") - begun) / 1000))
        tell(
            " ".join(
                f"{field.name} {value:.1f}" for field, value in zip(fields(Reading), astuple(readings[-1]), strict=True)
            )
        )
    frames = (page.evaluate("__painted") - painted) / readings[-1].at_s
    return {"soak_minutes": round(readings[-1].at_s / 60, 1), "frames_per_s": round(frames, 1)} | told_of(readings)


def told_of(readings: list[Reading]) -> dict[str, float]:
    """Start, end and growth an hour of each kind of memory."""
    figures: dict[str, float] = {}
    for name in UNITS:
        values = [float(getattr(reading, name)) for reading in readings]
        figures[f"{name}_start"] = round(values[0], 1)
        figures[f"{name}_end"] = round(values[-1], 1)
        figures[f"{name}_per_hour"] = round(slope([reading.at_s / 3600 for reading in readings], values), 2)
    return figures


def slope(times: list[float], values: list[float]) -> float:
    """The median of the slopes between all pairs; 0 of a single reading."""
    pairs = itertools.combinations(zip(times, values, strict=True), 2)
    slopes = [(later - earlier) / (end - begin) for (begin, earlier), (end, later) in pairs if end > begin]
    return statistics.median(slopes) if slopes else 0.0
