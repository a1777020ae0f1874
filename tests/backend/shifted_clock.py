"""Time that a test lets pass."""

from __future__ import annotations

from kvxray_engine.clock import SystemClock


class ShiftedClock(SystemClock):
    """The time of the system, and as much more as a test has let pass."""

    def __init__(self) -> None:
        self.ahead_ns = 0

    def wall_ns(self) -> int:
        return super().wall_ns() + self.ahead_ns

    def mono_ns(self) -> int:
        return super().mono_ns() + self.ahead_ns
