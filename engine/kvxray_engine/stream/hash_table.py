"""Bytes of block hashes by ordinal. Hashes are opaque here: never turned into numbers, and compared only when somebody
asks for one.

Ordinals arrive as contiguous runs and most fall out of use when their block is evicted, so runs are kept as they come
and now and then thinned to the ordinals still carried by a block, with array operations only: done hash by hash this
was the dearest part of the whole fold.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvxray_engine.stream.columns import U1, U4, distinct

KEEP_AT_LEAST: Final = 65_536


class HashTable:
    """Kept ordinals (sorted) with their bytes, and the runs told since: (first ordinal, bytes), sorted, disjoint.

    `width`: bytes a hash. What was told last of an ordinal counts.
    """

    def __init__(self, width: int = 32) -> None:
        self._clear(width)

    def _clear(self, width: int) -> None:
        self.width = width
        self._kept: U4 = np.zeros(0, np.uint32)
        self._kept_bytes: U1 = np.zeros((0, width), np.uint8)
        self._first: list[int] = []
        self._runs: list[U1] = []
        self._held = 0
        self._thin_at = KEEP_AT_LEAST

    @property
    def num_bytes(self) -> int:
        """About what it takes of memory."""
        return (self.width + 4) * self._held

    def copy(self) -> HashTable:
        """Cheap: arrays are shared, since none is ever changed in place."""
        made = HashTable(self.width)
        made._kept, made._kept_bytes = self._kept, self._kept_bytes
        made._first, made._runs = list(self._first), list(self._runs)
        made._held, made._thin_at = self._held, self._thin_at
        return made

    def set_width(self, width: int) -> None:
        """Bytes a hash from now on; those of another width are forgotten."""
        if width != self.width:
            self._clear(width)

    def add(self, first: int, data: bytes | memoryview) -> None:
        """A run of hashes from ordinal `first` on."""
        if not len(data):
            return
        run = np.frombuffer(bytes(data), np.uint8).reshape(-1, self.width)
        at = bisect_right(self._first, first)
        self._first.insert(at, first)
        self._runs.insert(at, run)
        self._held += len(run)

    def get(self, ordinal: int) -> bytes | None:
        """The hash's bytes; None when it was never told, or fell out of use."""
        at = bisect_right(self._first, ordinal) - 1
        if at >= 0 and ordinal - self._first[at] < len(self._runs[at]):
            return bytes(self._runs[at][ordinal - self._first[at]])
        kept = int(np.searchsorted(self._kept, np.uint32(ordinal)))
        if kept < len(self._kept) and int(self._kept[kept]) == ordinal:
            return bytes(self._kept_bytes[kept])
        return None

    def of(self, ordinals: U4) -> tuple[NDArray[np.bool_], U1]:
        """Of each of these ordinals whether its bytes are held, and the bytes; the others' mean nothing."""
        table = self.copy()
        table.keep(ordinals)
        if not len(table._kept):
            return np.zeros(len(ordinals), bool), np.zeros((len(ordinals), self.width), np.uint8)
        at = np.minimum(np.searchsorted(table._kept, ordinals), len(table._kept) - 1)
        return table._kept[at] == ordinals, table._kept_bytes[at]

    def lacking(self, ordinals: U4) -> U4:
        """Those of these ordinals whose bytes are not held."""
        told = [np.arange(first, first + len(run), dtype=np.uint32) for first, run in self._told()]
        return ordinals[~np.isin(ordinals, np.concatenate([self._kept, *told]))]

    def ordinals_of(self, block_hash: bytes) -> list[int]:
        """Under which of the held ordinals this hash was told, in order: more than one where it was told again."""
        if len(block_hash) != self.width or not self.width:
            return []
        wanted = np.frombuffer(block_hash, np.uint8)
        found = self._kept[_equal(self._kept_bytes, wanted)].tolist()
        for first, run in self._told():
            found += (first + np.flatnonzero(_equal(run, wanted))).tolist()
        return sorted(set(found))

    def thin(self, in_use: Callable[[], U4]) -> None:
        """Forgets what no block carries, once enough has gathered. `in_use` gives the ordinals to keep."""
        if self._held >= self._thin_at:
            self.keep(in_use())
            self._thin_at = max(KEEP_AT_LEAST, 2 * self._held)

    def keep(self, ordinals: U4) -> None:
        """Keeps only these ordinals (any order, repeats allowed)."""
        wanted = distinct(ordinals)
        found = np.zeros(len(wanted), bool)
        data = np.empty((len(wanted), self.width), np.uint8)
        if len(self._kept):
            at = np.minimum(np.searchsorted(self._kept, wanted), len(self._kept) - 1)
            found = self._kept[at] == wanted
            data[found] = self._kept_bytes[at[found]]
        # Bounds of the same type as what is searched: it would be converted whole for each of thousands of runs.
        starts, ends = (np.searchsorted(wanted, bound) for bound in self._bounds())
        for first, run, start, end in zip(self._first, self._runs, starts.tolist(), ends.tolist(), strict=True):
            data[start:end] = run[wanted[start:end] - np.uint32(first)]
            found[start:end] = True
        self._kept, self._kept_bytes = wanted[found], data[found]
        self._first, self._runs = [], []
        self._held = len(self._kept)

    def runs(self) -> list[tuple[int, bytes]]:
        """All that is held, as runs of ordinals that follow each other, in order."""
        told = [np.arange(first, first + len(run), dtype=np.uint32) for first, run in self._told()]
        self.keep(np.concatenate([self._kept, *told]))
        if not len(self._kept):
            return []
        cuts = np.flatnonzero(np.diff(self._kept) != 1) + 1
        starts, ends = [0, *cuts.tolist()], [*cuts.tolist(), len(self._kept)]
        return [
            (int(self._kept[start]), self._kept_bytes[start:end].tobytes())
            for start, end in zip(starts, ends, strict=True)
        ]

    def _bounds(self) -> tuple[U4, U4]:
        """First ordinals of the runs, and those after their last."""
        first = np.array(self._first, np.uint32)
        return first, first + np.array([len(run) for run in self._runs], np.uint32)

    def _told(self) -> list[tuple[int, U1]]:
        return list(zip(self._first, self._runs, strict=True))


def _equal(hashes: U1, wanted: U1) -> NDArray[np.bool_]:
    """Which of these hashes is the one wanted. Most differ in their first byte: only the others are read whole."""
    same: NDArray[np.bool_] = hashes[:, 0] == wanted[0]
    same[same] = (hashes[same] == wanted).all(axis=1)
    return same
