"""The gauges of a fold, read at the end of each chunk: sums that follow the changed blocks instead of all of them."""

from __future__ import annotations

import numpy as np
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.columns import U4, Columns
from kvxray_engine.stream.schema import UNKNOWN_U4, BlockState, RequestStatus
from numpy.typing import NDArray

from kvxray_storage.leaked_holds import LeakedHolds
from kvxray_storage.rollup_book import NOT_KNOWN
from kvxray_storage.rollup_columns import GAUGES

I8 = NDArray[np.int64]


class FoldGauges:
    """`_slots`, `_refs`: what each block adds to the sums: written slots while it is referenced, and references."""

    def __init__(self, block_map: BlockMap) -> None:
        self.leaked = LeakedHolds(block_map)
        self._begin(block_map)

    def begin(self, block_map: BlockMap) -> None:
        """Anew, after the state was replaced or forgotten."""
        self.leaked.begin(block_map)
        self._begin(block_map)

    def note(self, block_map: BlockMap, columns: Columns, touched: U4) -> None:
        """After a chunk was folded; touched: the blocks it changed, each once."""
        self.leaked.note(columns, block_map.requests)
        slots, refs = _parts(block_map, touched)
        self._num_slots += int(slots.sum(dtype=np.int64)) - int(self._slots[touched].sum(dtype=np.int64))
        self._num_refs += int(refs.sum(dtype=np.int64)) - int(self._refs[touched].sum(dtype=np.int64))
        self._slots[touched], self._refs[touched] = slots, refs

    def read(self, block_map: BlockMap) -> I8:
        """One entry a gauge; NOT_KNOWN where it cannot be known."""
        counts = block_map.counts()
        used = counts[BlockState.active] + counts[BlockState.shared]
        held_slots = used * block_map.descriptor.block_size
        values = {state.name: counts[state] for state in BlockState}
        values |= {"used": used, "held_slots": held_slots, "empty_slots": max(held_slots - self._num_slots, 0)}
        values |= self._of_holders(block_map)
        if counts[BlockState.unknown] >= block_map.descriptor.usable_blocks:
            values = {"unknown": counts[BlockState.unknown]}
        return np.array([values.get(name, NOT_KNOWN) for name in GAUGES], np.int64)

    def check_integrity(self, block_map: BlockMap) -> None:
        slots, refs = _parts(block_map, np.arange(block_map.num_blocks, dtype=np.uint32))
        assert int(slots.sum(dtype=np.int64)) == self._num_slots, "written slots were counted wrongly"
        assert int(refs.sum(dtype=np.int64)) == self._num_refs, "references were counted wrongly"

    def _begin(self, block_map: BlockMap) -> None:
        self._slots, self._refs = _parts(block_map, np.arange(block_map.num_blocks, dtype=np.uint32))
        self._num_slots = int(self._slots.sum(dtype=np.int64))
        self._num_refs = int(self._refs.sum(dtype=np.int64))

    def _of_holders(self, block_map: BlockMap) -> dict[str, int]:
        """Who holds what, and who waits, is known from a snapshot on only."""
        if not block_map.holders_known:
            return {}
        status = np.bincount(block_map.requests.rows["status"], minlength=len(RequestStatus))
        leaked, leaked_only = self.leaked.count(block_map)
        return {
            "holds": self._num_refs,
            "leaked": leaked,
            "leaked_only": leaked_only,
            "running": int(status[RequestStatus.running]),
            "waiting": int(status[RequestStatus.waiting] + status[RequestStatus.preempted]),
        }


def _parts(block_map: BlockMap, blocks: U4) -> tuple[NDArray[np.uint16], U4]:
    """What these blocks add to the sums; the null block adds nothing."""
    state, ref = block_map.state[blocks], block_map.ref[blocks]
    counted = blocks != block_map.descriptor.null_block
    held = counted & ((state == BlockState.active) | (state == BlockState.shared))
    refs: U4 = np.where(counted & (ref != UNKNOWN_U4), ref, 0).astype(np.uint32)
    return np.where(held, block_map.slots[blocks], 0).astype(np.uint16), refs
