"""When a block was last allocated, released, or given its hash, before a row that asks for it: among the rows of this
batch, else before all of them.

Without sorting for nearly all: the last such row of a block in the whole batch is the one before, unless it comes after
the row that asks. Only the blocks where it does are sorted.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from kvxray_engine.stream.columns import U4
from numpy.typing import NDArray

from kvxray_backend.analysis.block_touches import Index

Value = TypeVar("Value", bound=np.generic)


class LastRows:
    """For one pool. Invariant: every entry of `_last` is -1 between two calls."""

    def __init__(self, num_blocks: int) -> None:
        self._last = np.full(num_blocks, -1, np.int32)

    def before(self, blk: U4, asks: Index, tells: Index, told: NDArray[Value], held: NDArray[Value]) -> NDArray[Value]:
        """For each row of `asks`, what the last row of `tells` on its block before it told, else what is held of the
        block. told: one entry for each of `tells`.
        """
        wanted = blk[asks]
        if not len(tells):
            return held[wanted]
        of = blk[tells]
        self._last[of] = np.arange(len(tells), dtype=np.int32)  # in order: the last of each block is what stays
        at = self._last[wanted]
        self._last[of] = -1
        is_there = at >= 0
        found = np.where(is_there, told[at], held[wanted])
        late = np.flatnonzero(is_there & (tells[at] > asks))
        if len(late):
            found[late] = _among(blk, asks[late], tells, told, held)
        return found


def _among(blk: U4, asks: Index, tells: Index, told: NDArray[Value], held: NDArray[Value]) -> NDArray[Value]:
    """The same by sorting: block and then place in one number. What asks is sorted too: searching at random misses the
    processor's cache each time.
    """
    places, wanted = _places(blk, tells), _places(blk, asks)
    order, in_order = np.argsort(places), np.argsort(wanted)
    at = np.empty(len(asks), np.intp)
    at[in_order] = np.searchsorted(places[order], wanted[in_order]) - 1
    row = order[np.maximum(at, 0)]
    is_same = (at >= 0) & (blk[tells[row]] == blk[asks])
    found: NDArray[Any] = np.where(is_same, told[row], held[blk[asks]])
    return found


def _places(blk: U4, rows: Index) -> NDArray[np.uint64]:
    places: NDArray[np.uint64] = (blk[rows].astype(np.uint64) << np.uint64(32)) | rows.astype(np.uint64)
    return places
