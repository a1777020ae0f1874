"""Bytes of block hashes by ordinal. Hashes are opaque here: never compared, never turned into numbers.

Ordinals arrive as contiguous runs and most fall out of use when their block is evicted, so runs are appended as they
come and now and then thinned to the ordinals still carried by a block.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Final

import numpy as np

from kvxray_engine.stream.columns import U4

KEEP_AT_LEAST: Final = 65_536


class HashTable:
    """Runs of (first ordinal, bytes), sorted by ordinal; `width` bytes a hash."""

    def __init__(self, width: int = 32) -> None:
        self.width = width
        self._first: list[int] = []
        self._runs: list[bytes] = []
        self._held = 0
        self._thin_at = KEEP_AT_LEAST

    def add(self, first: int, data: bytes | memoryview) -> None:
        """A run of hashes from ordinal `first` on."""
        if not len(data):
            return
        run = bytes(data)
        at = bisect_right(self._first, first)
        self._first.insert(at, first)
        self._runs.insert(at, run)
        self._held += len(run) // self.width

    def get(self, ordinal: int) -> bytes | None:
        """The hash's bytes; None when it was never told, or fell out of use."""
        at = bisect_right(self._first, ordinal) - 1
        if at < 0:
            return None
        offset = (ordinal - self._first[at]) * self.width
        found = self._runs[at][offset : offset + self.width]
        return found or None

    def thin(self, in_use: Callable[[], U4]) -> None:
        """Forgets what no block carries, once enough has gathered. `in_use` gives the ordinals to keep."""
        if self._held >= self._thin_at:
            self.keep(in_use())
            self._thin_at = max(KEEP_AT_LEAST, 2 * self._held)

    def keep(self, ordinals: U4) -> None:
        """Keeps only these ordinals (any order, repeats allowed)."""
        known = [(int(ordinal), self.get(int(ordinal))) for ordinal in np.unique(ordinals)]
        self._first, self._runs, self._held = [], [], 0
        run: list[bytes] = []
        start = -1
        for ordinal, data in known:
            if data is None:
                continue
            if run and ordinal != start + len(run):
                self.add(start, b"".join(run))
                run = []
            if not run:
                start = ordinal
            run.append(data)
        if run:
            self.add(start, b"".join(run))

    def runs(self) -> list[tuple[int, bytes]]:
        """All that is held, in order of ordinal."""
        return list(zip(self._first, self._runs, strict=True))
