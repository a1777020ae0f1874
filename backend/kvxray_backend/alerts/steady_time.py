"""Two clocks together: the one that people read, which may be set and goes on while the machine sleeps, and one that
only counts while it is awake.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kvxray_backend.alerts.alert_book import Now

JUMP_S: Final = 5.0
"""By so much the two may drift apart between two looks before one was set, or the machine slept."""
LONGEST_STEP_S: Final = 120.0
"""Who did not look for longer has not seen what was between."""
SETTLE_S: Final = 15.0
"""So long after a jump what is known is of before: engines were not heard, pages not read."""


class SteadyTime:
    """For one thread, but for `wall_ns_of`."""

    def __init__(self, wall_ns: Callable[[], int], steady_s: Callable[[], float]) -> None:
        self._wall_ns, self._steady_s = wall_ns, steady_s
        self._last: tuple[float, float] | None = None
        self._settled_s = 0.0

    def now(self) -> Now | None:
        """None: something jumped a moment ago, and no look is to tell anything."""
        wall_ns, steady_s = self._wall_ns(), self._steady_s()
        wall_s = wall_ns / 1e9
        if self._last is not None:
            stepped_s = steady_s - self._last[1]
            if abs(wall_s - self._last[0] - stepped_s) > JUMP_S or stepped_s > LONGEST_STEP_S:
                self._settled_s = steady_s + SETTLE_S
        self._last = wall_s, steady_s
        if steady_s < self._settled_s:
            return None
        return Now(wall_s, steady_s, wall_ns)

    def wall_ns_of(self, steady_s: float) -> int:
        """When that was, by the clock as it is now."""
        return self._wall_ns() - round((self._steady_s() - steady_s) * 1e9)
