"""Answers that are kept for a moment, so that many who ask the same cost one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

T = TypeVar("T")
MAX_KEPT: Final = 16


class KeptAnswers(Generic[T]):
    """Made one at a time: who asks the same meanwhile waits for it. Safe to ask from any thread."""

    def __init__(self, keep_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._keep_s = keep_s
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: dict[Hashable, tuple[float, T]] = {}

    def get(self, asked: Hashable, make: Callable[[], T]) -> T:
        """What `make` gives, or gave less than that long ago. What it raises is not kept."""
        with self._lock:
            now = self._clock()
            self._kept = {one: kept for one, kept in self._kept.items() if now - kept[0] < self._keep_s}
            if asked not in self._kept:
                made = make()
                self._kept[asked] = self._clock(), made
                for old in list(self._kept)[:-MAX_KEPT]:
                    del self._kept[old]
            return self._kept[asked][1]
