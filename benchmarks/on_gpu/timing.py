"""Times of work on a GPU: recorded once as a graph, so that what is timed is the kernels and not Python's launches."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Final

import torch

SAMPLES: Final = 7
SAMPLE_S: Final = 0.02


def seconds_of(work: Callable[[], object]) -> float:
    """Median seconds of one call. `work` reads and writes the same memory at each call, and never asks for a result."""
    for _ in range(2):
        work()  # compiles, and allocates what is kept
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    once = _seconds_of_replays(graph, 1)
    repeats = max(1, round(SAMPLE_S / once))
    return median(_seconds_of_replays(graph, repeats) / repeats for _ in range(SAMPLES))


def _seconds_of_replays(graph: torch.cuda.CUDAGraph, repeats: int) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(repeats):
        graph.replay()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1000


def copy_bandwidth(device: torch.device, size: int = 1 << 30) -> float:
    """Bytes a second, read and written, of torch's copy of memory too large for any cache."""
    source = torch.empty(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    return 2 * size / seconds_of(lambda: target.copy_(source))


class Deadline:
    """How much time a run has left."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._end
