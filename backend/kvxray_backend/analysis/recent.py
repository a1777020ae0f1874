"""What happened in the last minute, one entry each, with its time: bounded, and it says where it had to let go of some.

Time is that of the events; knows no clock. What an engine told before its clock was set back lies in the future then,
and is of no minute.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from kvxray_engine.stream.columns import I8

from kvxray_backend.engine_clock import SET_BACK_NS

WINDOW_NS: Final = 60_000_000_000
MAX_KEPT: Final = 1 << 17
"""Entries of one minute: 2,184 a second. Of more the latest are kept."""
_CAPACITY: Final = 256


class Recent:
    """Columns of whole numbers, the first of them the time. `cut_ns`: the latest time that was let go of too early."""

    def __init__(self, num_columns: int, max_kept: int = MAX_KEPT) -> None:
        self._columns: I8 = np.zeros((1 + num_columns, min(_CAPACITY, max_kept)), np.int64)
        self._size = 0
        self._max_kept = max_kept
        self.cut_ns = -(1 << 62)

    def __len__(self) -> int:
        return self._size

    def add(self, t_ns: I8, *columns: I8) -> None:
        """Entries in the order of their events."""
        num = len(t_ns)
        if not num:
            return
        if self._size + num > self._columns.shape[1]:
            self._make_room(int(t_ns[-1]), num)
        room = self._columns.shape[1] - self._size
        if num > room:
            self.cut_ns = max(self.cut_ns, int(t_ns[: num - room].max()))
        for into, values in zip(self._columns, (t_ns, *columns), strict=True):
            into[self._size : self._size + min(num, room)] = values[-room:]
        self._size += min(num, room)

    def since(self, now_ns: int) -> I8:
        """The entries of the last minute, one column each: read, do not write."""
        held = self._columns[:, : self._size]
        is_recent = (held[0] > now_ns - WINDOW_NS) & (held[0] <= now_ns + SET_BACK_NS)
        num = int(np.count_nonzero(is_recent))
        # Nearly always they are the latest: to pick them one by one takes as long as to note them.
        first = self._size - num
        found: I8 = held[:, first:] if is_recent[first:].all() else held[:, is_recent]
        return found

    def is_whole(self, now_ns: int) -> bool:
        """Whether nothing of the last minute was let go of."""
        return self.cut_ns <= now_ns - WINDOW_NS

    def check_integrity(self) -> None:
        """Asserts that it is bounded."""
        assert self._size <= self._columns.shape[1] <= 2 * self._max_kept, "too much is remembered"

    def _make_room(self, now_ns: int, num: int) -> None:
        """Forgets what is older than a minute, and the oldest where that is not enough."""
        kept = self.since(now_ns)
        spare = max(self._max_kept - num, 0)
        if kept.shape[1] > spare:
            self.cut_ns = max(self.cut_ns, int(kept[0, : kept.shape[1] - spare].max()))
            kept = kept[:, kept.shape[1] - spare :]
        self._size = kept.shape[1]
        wanted = min(max(2 * (self._size + num), _CAPACITY), 2 * self._max_kept)
        self._columns = np.concatenate([kept, np.zeros((len(kept), wanted - self._size), np.int64)], axis=1)
