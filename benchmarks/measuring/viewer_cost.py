"""What one more viewer costs the server: windows with many viewers and with none of them, in turns.

The server is busy with the engine all the while, and not evenly. With many viewers, turns and medians the noise of a
window is small beside what so many viewers cost, and the spread of the turns says how small. CPU time is the kernel's
account of the process; memory is the least that was resident in a window, since what is made for a moment comes on top.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import psutil
from anyio.from_thread import start_blocking_portal

from benchmarks.measuring.feed_viewer import FeedViewer
from benchmarks.measuring.map_rig import START_S

LOOKS = 20  # at the memory, in a window


@dataclass(frozen=True, slots=True)
class Load:
    """Of the server, in one window."""

    core_percent: float
    megabytes: float


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one viewer. `spread`: half of the distance between the quartiles of the turns, in percent of a core."""

    core_percent: float
    spread: float
    megabytes: float

    def figures(self, of: str) -> dict[str, float]:
        """By the names that the benchmark prints."""
        return {
            f"core_percent_per_{of}": round(self.core_percent, 3),
            f"core_percent_per_{of}_spread": round(self.spread, 3),
            f"server_mb_per_{of}": round(self.megabytes, 2),
        }


@dataclass(frozen=True, slots=True)
class Turns:
    """How often viewers come and go, for how long each time is measured, and how long nothing is before that."""

    count: int
    window_s: float
    settle_s: float

    def cost(self, server: psutil.Process, viewers: int, come: Callable[[], AbstractContextManager[object]]) -> Cost:
        """Of one of so many viewers that watch as long as `come` is entered."""
        before = self._window(server)
        costs, grown = list[float](), 0.0
        for turn in range(self.count):
            with come():
                during = self._window(server)
            after = self._window(server)
            costs.append((during.core_percent - (before.core_percent + after.core_percent) / 2) / viewers)
            # Only the first time: what they leave behind serves those who come after them.
            grown = grown if turn else (during.megabytes - before.megabytes) / viewers
            before = after
        return Cost(statistics.median(costs), spread(costs), grown)

    def _window(self, server: psutil.Process) -> Load:
        time.sleep(self.settle_s)
        return load(server, self.window_s)


@contextmanager
def watching(url: str, count: int) -> Iterator[list[FeedViewer]]:
    """So many viewers that have the picture and a delta beyond it, and go along, in a thread of their own."""
    viewers = [FeedViewer(url) for _ in range(count)]
    with start_blocking_portal() as portal:
        running = [portal.start_task_soon(viewer.run) for viewer in viewers]
        try:
            portal.call(_all_joined, viewers)
            yield viewers
        finally:
            for task in running:
                task.cancel()


async def _all_joined(viewers: list[FeedViewer]) -> None:
    await asyncio.wait_for(asyncio.gather(*(viewer.joined.wait() for viewer in viewers)), START_S)


def load(server: psutil.Process, seconds: float) -> Load:
    """Percent of a core over so long, and the least megabytes that were resident."""
    begun, before = time.perf_counter(), cpu_seconds(server)
    resident = [server.memory_info().rss]
    for _ in range(LOOKS):
        time.sleep(seconds / LOOKS)
        resident.append(server.memory_info().rss)
    busy, lasted = cpu_seconds(server) - before, time.perf_counter() - begun
    return Load(100 * busy / lasted, min(resident) / 1e6)


def cpu_seconds(process: psutil.Process) -> float:
    """Of all its threads, so far."""
    times = process.cpu_times()
    return float(times.user + times.system)


def spread(values: list[float]) -> float:
    """Half of the distance between the quartiles; 0 of a single value."""
    if len(values) < 2:
        return 0.0
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / 2
