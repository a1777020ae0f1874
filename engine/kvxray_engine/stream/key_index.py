"""Rows by key: which row of a table belongs to a 64-bit key, vectorised.

Keys are kept sorted. Nearly all new ones are larger than any before (ordinals only grow) and are appended; the others
gather in a small layer, since putting them into a million sorted keys costs a hundred times what a message does.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvxray_engine.stream.columns import I8

U8 = NDArray[np.uint64]

MERGE_AT: Final = 16_384
_CAPACITY: Final = 1024


class KeyIndex:
    """Two layers, each sorted, with no key in common. Rows are numbered as keys are added: 0, 1, 2, ..."""

    def __init__(self) -> None:
        self._keys: U8 = np.zeros(_CAPACITY, np.uint64)
        self._rows: I8 = np.zeros(_CAPACITY, np.int64)
        self._size = 0
        self._late_keys: U8 = np.zeros(0, np.uint64)
        self._late_rows: I8 = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return self._size + len(self._late_keys)

    def copy(self) -> KeyIndex:
        made = KeyIndex()
        made._keys, made._rows, made._size = self._keys.copy(), self._rows.copy(), self._size
        # Never changed in place.
        made._late_keys, made._late_rows = self._late_keys, self._late_rows
        return made

    def find(self, keys: U8) -> I8:
        """The row of each key, -1 for one that was never added."""
        found = _look_up(self._keys[: self._size], self._rows, keys)
        if len(self._late_keys):
            found = np.maximum(found, _look_up(self._late_keys, self._late_rows, keys))
        return found

    def find_or_add(self, keys: U8) -> I8:
        """The row of each key; those that were never added get the next rows. `keys`: sorted, each once."""
        rows = self.find(keys)
        is_new = rows < 0
        num_new = int(np.count_nonzero(is_new))
        if num_new:
            rows[is_new] = np.arange(len(self), len(self) + num_new)
            self._add(keys[is_new], rows[is_new])
        return rows

    def keys_by_row(self) -> U8:
        """The key of every row."""
        keys = np.zeros(len(self), np.uint64)
        keys[self._rows[: self._size]] = self._keys[: self._size]
        keys[self._late_rows] = self._late_keys
        return keys

    def check_integrity(self) -> None:
        for keys in (self._keys[: self._size], self._late_keys):
            assert (keys[1:] > keys[:-1]).all(), "keys are out of order"
        rows = np.sort(np.concatenate([self._rows[: self._size], self._late_rows]))
        assert (rows == np.arange(len(self))).all(), "a row has no key or two"
        assert not np.isin(self._late_keys, self._keys[: self._size]).any(), "a key is in both layers"

    def _add(self, keys: U8, rows: I8) -> None:
        last = self._keys[self._size - 1] if self._size else None
        is_late = np.zeros(len(keys), bool) if last is None else keys <= last
        if is_late.any():
            at = np.searchsorted(self._late_keys, keys[is_late])
            self._late_keys = np.insert(self._late_keys, at, keys[is_late])
            self._late_rows = np.insert(self._late_rows, at, rows[is_late])
        self._append(keys[~is_late], rows[~is_late])
        if len(self._late_keys) >= MERGE_AT:
            self._merge()

    def _append(self, keys: U8, rows: I8) -> None:
        end = self._size + len(keys)
        if end > len(self._keys):
            capacity = max(end, 2 * len(self._keys))
            self._keys, self._rows = np.resize(self._keys, capacity), np.resize(self._rows, capacity)
        self._keys[self._size : end], self._rows[self._size : end] = keys, rows
        self._size = end

    def _merge(self) -> None:
        at = np.searchsorted(self._keys[: self._size], self._late_keys)
        self._keys = np.insert(self._keys[: self._size], at, self._late_keys)
        self._rows = np.insert(self._rows[: self._size], at, self._late_rows)
        self._size = len(self._keys)
        self._late_keys, self._late_rows = self._late_keys[:0], self._late_rows[:0]


def _look_up(keys: U8, rows: I8, wanted: U8) -> I8:
    if not len(keys):
        return np.full(len(wanted), -1, np.int64)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, rows[at], -1)
