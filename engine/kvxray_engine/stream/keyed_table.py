"""A table of columns whose rows are found by key: it grows at its end and forgets rows all at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kvxray_engine.stream.columns import I8
from kvxray_engine.stream.key_index import U8, KeyIndex

_CAPACITY: Final = 1024


class KeyedTable:
    """`index`: key to row. Columns are had by name, whole (`table["copies"][rows]`); a new row is all `fills`."""

    def __init__(self, fills: Mapping[str, tuple[str, int]]) -> None:
        """fills: type and first value of each column."""
        self._fills = fills
        self.index = KeyIndex()
        self._capacity = _CAPACITY
        self._columns = {name: np.full(_CAPACITY, fill, dtype) for name, (dtype, fill) in fills.items()}

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self._columns[name][: len(self.index)]

    @property
    def num_bytes(self) -> int:
        """About what it takes of memory."""
        return sum(column.nbytes for column in self._columns.values()) + 16 * self._capacity

    def copy(self) -> KeyedTable:
        made = KeyedTable(self._fills)
        made.index, made._capacity = self.index.copy(), self._capacity
        made._columns = {name: column.copy() for name, column in self._columns.items()}
        return made

    def rows_of(self, keys: U8) -> I8:
        """The row of each key, made where there is none. `keys`: sorted, each once."""
        rows = self.index.find_or_add(keys)
        if len(self.index) > self._capacity:
            self._grow(len(self.index))
        return rows

    def keep(self, is_kept: NDArray[np.bool_]) -> None:
        """Forgets all rows but these (one entry a row); the others get new numbers, in order of key."""
        keys = self.index.keys_by_row()
        kept = np.flatnonzero(is_kept)
        kept = kept[np.argsort(keys[kept])]
        columns = {name: self[name][kept] for name in self._fills}
        self.replace(keys[kept], columns)

    def replace(self, keys: U8, columns: Mapping[str, NDArray[Any]]) -> None:
        """Begins anew with these rows. `keys`: sorted, each once."""
        self.index = KeyIndex()
        self._capacity = _CAPACITY
        self._columns = {name: np.full(_CAPACITY, fill, dtype) for name, (dtype, fill) in self._fills.items()}
        self.rows_of(keys)
        for name, values in columns.items():
            self[name][:] = values

    def _grow(self, size: int) -> None:
        self._capacity = max(size, 2 * self._capacity)
        for name, (dtype, fill) in self._fills.items():
            grown = np.full(self._capacity, fill, dtype)
            grown[: len(self._columns[name])] = self._columns[name]
            self._columns[name] = grown
