"""How many blocks are leaked at a moment of a fold, for the rollups: a count, and cheap where nothing leaks.

Sums by holder are kept beside the fold, so that the holds themselves are only sorted when some holder that is over
still has any.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.columns import I8, U4, Columns, kind_table
from kvxray_engine.stream.holder_ends import EngineTime, end_of, is_no_request
from kvxray_engine.stream.holder_log import named
from kvxray_engine.stream.request_table import RequestTable
from kvxray_engine.stream.schema import Kind

_ADDS: Final = kind_table(frozenset({Kind.BlockAllocated, Kind.BlockReferenced}))
_REMOVES: Final = kind_table(frozenset({Kind.BlockDereferenced, Kind.BlockFreed}))


class LeakedHolds:
    """`_holders`, in order, and `_held`: how many holds each has; those without any are left out. `_others`: holders
    that are no plain requests, and so may be over without having ended.
    """

    def __init__(self, block_map: BlockMap) -> None:
        self.begin(block_map)

    def begin(self, block_map: BlockMap) -> None:
        """Anew from the holds of the fold."""
        self._holders, self._held = np.unique(block_map.holds()[1], return_counts=True)
        self._others = {holder for holder in self._holders.tolist() if is_no_request(block_map.requests, holder)}

    def note(self, columns: Columns, requests: RequestTable) -> None:
        """The operations that were just folded."""
        at = np.flatnonzero(_ADDS[columns.kind] | _REMOVES[columns.kind])
        if not len(at):
            return
        changes = np.where(_ADDS[columns.kind[at]], 1, -1) * columns.n[at].astype(np.int64)
        holders, held = _sums(
            np.concatenate([self._holders, named(columns.req[at])]), np.concatenate([self._held, changes])
        )
        fresh = np.setdiff1d(holders, self._holders, assume_unique=True).tolist()
        self._others.update(holder for holder in fresh if is_no_request(requests, holder))
        if self._others:
            self._others.intersection_update(holders.tolist())
        self._holders, self._held = holders, held

    def count(self, block_map: BlockMap) -> tuple[int, int]:
        """Blocks with a leaked hold, and those of them without any other."""
        over = self._over(block_map)
        if not len(over):
            return 0, 0
        blocks, holders = block_map.holds()
        leaked, holds = np.unique(blocks[np.isin(holders, over)], return_counts=True)
        return len(leaked), int(np.count_nonzero(holds == block_map.ref[leaked]))

    def check_integrity(self, block_map: BlockMap) -> None:
        """For a stream that breaks no law: sums drift where it releases what was not held, until they begin anew."""
        holders, counts = np.unique(block_map.holds()[1], return_counts=True)
        assert np.array_equal(self._holders, holders), "holders were counted wrongly"
        assert np.array_equal(self._held, counts), "holds were counted wrongly"

    def _over(self, block_map: BlockMap) -> U4:
        """Holders with holds whose right to them ended longer than the grace ago."""
        requests = block_map.requests
        suspects = {*self._holders[requests.ended(self._holders)].tolist(), *self._others}
        if not suspects:
            return np.zeros(0, np.uint32)
        now = EngineTime.folded(block_map)
        over = [holder for holder in sorted(suspects) if end_of(requests, holder, now) is not None]
        return np.array(over, np.uint32)


def _sums(holders: U4, changes: I8) -> tuple[U4, I8]:
    """Each holder once, in order, with what its changes come to, if that is anything."""
    order = np.argsort(holders)
    holders = holders[order]
    first = np.flatnonzero(np.concatenate(([True], holders[1:] != holders[:-1])))
    sums = np.add.reduceat(changes[order], first)
    return holders[first][sums != 0], sums[sums != 0]
