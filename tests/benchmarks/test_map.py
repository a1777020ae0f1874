"""The benchmark of the live map runs, with a pool small enough for a test, and keeps the names of its figures."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import psutil
import pytest

from benchmarks.measuring.map_soak import UNITS, Reading, slope, told_of
from benchmarks.measuring.viewer_cost import Turns, spread
from tests.app.browser import require_chromium

ROOT = Path(__file__).parents[2]
FIGURES = {
    "blocks", "changes_per_s", "frames_per_s", "event_to_pixel_p50_ms", "event_to_pixel_p95_ms", "join_10_viewers_s",
    "core_percent_per_viewer", "server_mb_per_viewer", "event_to_pixel_with_timelines_p95_ms",
    "core_percent_per_viewer_spread", "core_percent_per_page", "server_mb_per_page",
}  # fmt: skip


def run_map(*options: str) -> dict[str, Any]:
    # In a process of its own: Playwright bears no second event loop in one thread.
    command = [sys.executable, "-m", "benchmarks.map", "--json", "--blocks", "4096", "--changes", "2000", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return cast("dict[str, Any]", json.loads(done.stdout))


@pytest.mark.browser
def test_map_prints_one_object_with_its_figures() -> None:
    require_chromium()
    figures = run_map("--seconds", "1", "--settle", "0", "--viewers", "2", "--turns", "1")
    assert set(figures) >= FIGURES
    assert figures["blocks"] == 4096
    assert figures["join_10_viewers_s"] > 0


@pytest.mark.browser
def test_a_soak_tells_memory_at_its_start_and_end_and_how_fast_it_grew() -> None:
    require_chromium()
    figures = run_map("--soak", "0.02")
    assert set(figures) >= {f"{name}_{which}" for name in UNITS for which in ("start", "end", "per_hour")}
    assert figures["server_mb_start"] > 0
    assert figures["renderer_mb_end"] > figures["heap_mb_end"] > 0
    assert figures["nodes_start"] > 0
    assert figures["buffers_mb_start"] > 0


def test_growth_is_told_an_hour_and_one_high_reading_does_not_turn_it() -> None:
    readings = [Reading(60.0 * at, 100.0 + at, 200.0, 300.0 if at == 5 else 10.0, 3.0, 50.0, 5.0) for at in range(11)]
    told = told_of(readings)
    assert (told["server_mb_start"], told["server_mb_end"]) == (100, 110)
    assert told["server_mb_per_hour"] == pytest.approx(60)
    assert told["heap_mb_per_hour"] == 0
    assert slope([0.0], [1.0]) == 0


class Server:
    """A process that takes more of a core while it has viewers, and as much memory as they need from then on."""

    def __init__(self) -> None:
        self.viewers = 0
        self.seconds = 0.0
        self.bytes = 100_000_000

    def cpu_times(self) -> SimpleNamespace:
        return SimpleNamespace(user=self.seconds, system=0.0)

    def memory_info(self) -> SimpleNamespace:
        return SimpleNamespace(rss=self.bytes)


def test_a_viewer_costs_what_the_server_takes_more_while_there_are_some(monkeypatch: pytest.MonkeyPatch) -> None:
    server, clock = Server(), [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds
        server.seconds += seconds * (0.3 + 0.002 * server.viewers)

    @contextmanager
    def come() -> Iterator[None]:
        server.viewers, server.bytes = 10, 120_000_000
        yield
        server.viewers = 0

    monkeypatch.setattr(
        "benchmarks.measuring.viewer_cost.time", SimpleNamespace(sleep=sleep, perf_counter=lambda: clock[0])
    )
    cost = Turns(3, 10, 5).cost(cast("psutil.Process", server), 10, come)
    assert cost.core_percent == pytest.approx(0.2)
    assert cost.spread == pytest.approx(0)
    assert cost.megabytes == pytest.approx(2)
    assert cost.figures("viewer")["server_mb_per_viewer"] == 2


def test_the_spread_is_half_of_what_lies_between_the_quartiles() -> None:
    assert spread([1, 2, 3, 4, 5]) == 1
    assert spread([7]) == 0
