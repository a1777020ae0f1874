"""Time as whoever listens spends it: what waits for an answer waits while we listen, not while we are busy.

Behind a long fold, or on a machine that is overloaded, an answer that came long ago still lies in the hand-over; by the
clock on the wall it would be given up before anybody looked.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

MAX_BUSY_NS: Final = 50_000_000
"""Of the time between two looks at most so much counts, so that what never comes is given up under any load."""


class ListeningClock:
    """Goes on with each look. For one thread."""

    def __init__(self, mono_ns: Callable[[], int] = time.monotonic_ns) -> None:
        """mono_ns: nanoseconds of a clock that never goes back."""
        self._mono_ns = mono_ns
        self._looked_ns = mono_ns()
        self.now_ns = self._looked_ns

    def look(self) -> None:
        """We look at what has come, and perhaps wait for it until `looked`."""
        mono_ns = self._mono_ns()
        self.now_ns += min(mono_ns - self._looked_ns, MAX_BUSY_NS)
        self._looked_ns = mono_ns

    def looked(self) -> None:
        """We have looked: all the time of it counts."""
        mono_ns = self._mono_ns()
        self.now_ns += mono_ns - self._looked_ns
        self._looked_ns = mono_ns
