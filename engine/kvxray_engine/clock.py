"""Where time comes from. The engine never asks the system itself, so that a run can be virtual and replayed.

Analysis reads the time carried by events, never the wall: with a `VirtualClock` hours pass in seconds and mean the
same.
"""

from __future__ import annotations

import time
from typing import Protocol

EPOCH_2026_NS = 1_767_225_600_000_000_000


class Clock(Protocol):
    """Two readings, in nanoseconds: the wall (Unix time) and a monotonic one for durations."""

    def wall_ns(self) -> int: ...

    def mono_ns(self) -> int: ...


class SystemClock:
    """The machine's clocks."""

    def wall_ns(self) -> int:
        return time.time_ns()

    def mono_ns(self) -> int:
        return time.monotonic_ns()


class VirtualClock:
    """A clock that moves only when told to; starts at 2026-01-01T00:00:00Z unless told otherwise."""

    def __init__(self, wall_ns: int = EPOCH_2026_NS) -> None:
        self._wall_ns = wall_ns
        self._mono_ns = 0

    def advance_ns(self, ns: int) -> None:
        assert ns >= 0, "a clock never goes back"
        self._wall_ns += ns
        self._mono_ns += ns

    def wall_ns(self) -> int:
        return self._wall_ns

    def mono_ns(self) -> int:
        return self._mono_ns
