"""What viewers see of one source: how each block looks, which blocks leak, and what changed since viewers last looked.

Whoever calls holds the lock of the state that is shown. Knows nothing of how frames are encoded.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.schema import UNKNOWN_U4
from numpy.typing import NDArray

from kvxray_backend.analysis.leaks import Leak
from kvxray_backend.frames import (
    FLAG_HASHED,
    FLAG_LEAKED,
    FLAG_LEAKED_ONLY,
    FLAG_NULL_BLOCK,
    FrameHeader,
    Picture,
    fill_bytes,
    ref_bytes,
)

U1 = NDArray[np.uint8]
U4 = NDArray[np.uint32]
Delta = tuple[FrameHeader, U4, Picture]

MAX_DELTA_BLOCKS: Final = 1 << 18

# A change that no event told moves `seq` by this much; a power of two, so that sums stay exact.
_UNTOLD: Final = 2.0**-10


class LivePicture:
    """Invariant: `leaked`, `leaked_only` (1 = any, all of the holders have ended) and the marks have one entry a block.

    `seq`: the `picture_seq` of frames, below 0 before the first event. What draws takes the epoch and the wall ns that
    the state is from.
    """

    def __init__(self) -> None:
        self.seq = -1.0
        self.leaked: U1 = np.zeros(0, np.uint8)
        self.leaked_only: U1 = np.zeros(0, np.uint8)
        self._marked: U1 = np.zeros(0, np.uint8)
        self._marked_leaks: tuple[Leak, ...] | None = None
        self._block_map: BlockMap | None = None

    def begin(self) -> None:
        """A new epoch, or the same one joined anew: what is shown next follows on nothing."""
        self.seq = -1.0
        self.forget_leaks()

    def show(self, block_map: BlockMap) -> None:
        """These blocks from now on, all of them anew."""
        self._block_map = block_map
        if len(self._marked) != block_map.num_blocks:
            self._resize()
        self.change_all()

    def change(self, ids: U4) -> None:
        """What was folded changed these blocks."""
        if self._map().num_blocks != len(self._marked):
            self._resize()
        self._marked[ids] = 1
        self._move()

    def change_all(self) -> None:
        self._marked[:] = 1
        self._move()

    def mark_leaks(self, leaks: tuple[Leak, ...]) -> None:
        if leaks is self._marked_leaks:
            return
        self._marked_leaks = leaks
        leaked, leaked_only = np.zeros_like(self.leaked), np.zeros_like(self.leaked_only)
        if leaks:
            leaked[np.concatenate([leak.blocks for leak in leaks])] = 1
            leaked_only[np.concatenate([leak.blocks_only for leak in leaks])] = 1
        changed = np.flatnonzero((leaked != self.leaked) | (leaked_only != self.leaked_only))
        if len(changed):
            self.leaked, self.leaked_only = leaked, leaked_only
            self._marked[changed] = 1
            self._move()

    def forget_leaks(self) -> None:
        self._marked_leaks = None
        self.leaked, self.leaked_only = np.zeros_like(self.leaked), np.zeros_like(self.leaked_only)

    def forget_changes(self) -> None:
        self._marked[:] = 0

    def draw(self, epoch: int, time_ns: int) -> tuple[FrameHeader, Picture]:
        """Every block."""
        return self._header(epoch, time_ns, self.seq), self._look(self._every_id())

    def draw_changes(self, epoch: int, time_ns: int, seq_from: float, *, follows: bool) -> Delta:
        """What changed since the last call, which ended at `seq_from`; it is not told again. follows: that was in the
        same epoch. Where it was not, or a snapshot costs viewers less, the delta is empty and does not follow.
        """
        # As truth values: numbers are searched fifteen times slower, thirty times a second under the lock.
        ids = np.flatnonzero(self._marked.view(np.bool_)).astype(np.uint32)
        self._marked[:] = 0
        return self._delta(epoch, time_ns, seq_from, ids, follows)

    def draw_difference(self, epoch: int, time_ns: int, earlier: LivePicture, *, follows: bool) -> Delta:
        """What looks different from another moment; it does not follow on one that had another number of blocks."""
        ids = np.zeros(0, np.uint32)
        follows = follows and earlier._map().num_blocks == self._map().num_blocks
        if follows:
            mine, theirs = self._look(self._every_id()), earlier._look(self._every_id())
            ids = np.flatnonzero(mine.differs_from(theirs)).astype(np.uint32)
        return self._delta(epoch, time_ns, earlier.seq, ids, follows)

    def check_integrity(self) -> None:
        """Asserts the invariant."""
        sizes = {len(self.leaked), len(self.leaked_only), len(self._marked)}
        assert sizes == {self._map().num_blocks}, "marks do not fit the blocks"
        assert (self.leaked_only <= self.leaked).all(), "a block held by the ended alone has no leaked hold"

    def _map(self) -> BlockMap:
        assert self._block_map is not None, "the source has not been joined"
        return self._block_map

    def _every_id(self) -> U4:
        return np.arange(self._map().num_blocks, dtype=np.uint32)

    def _resize(self) -> None:
        self._marked_leaks = None
        self.leaked = np.zeros(self._map().num_blocks, np.uint8)
        self.leaked_only = np.zeros(self._map().num_blocks, np.uint8)
        self._marked = np.ones(self._map().num_blocks, np.uint8)

    def _move(self) -> None:
        """Whatever changed, `seq` grows: to the event folded, or by a little when no event told."""
        self.seq = max(float(self._map().next_seq - 1), self.seq + _UNTOLD)

    def _delta(self, epoch: int, time_ns: int, seq_from: float, ids: U4, follows: bool) -> Delta:
        if not follows or len(ids) > MAX_DELTA_BLOCKS:
            ids, seq_from = ids[:0], self.seq
        return self._header(epoch, time_ns, seq_from), ids, self._look(ids)

    def _header(self, epoch: int, time_ns: int, seq_from: float) -> FrameHeader:
        block_map, descriptor = self._map(), self._map().descriptor
        return FrameHeader(
            epoch=epoch,
            num_blocks=block_map.num_blocks,
            seq_from=seq_from,
            seq_to=self.seq,
            time_s=time_ns / 1e9,
            null_block=descriptor.null_block,
            block_size=descriptor.block_size,
            usable=descriptor.usable_blocks,
        )

    def _look(self, ids: U4) -> Picture:
        block_map, descriptor = self._map(), self._map().descriptor
        ref, ordinal = block_map.ref[ids], block_map.hash_ordinal[ids]
        unknown = (ref == UNKNOWN_U4) | (ordinal == UNKNOWN_U4)
        flags = self.leaked[ids] * np.uint8(FLAG_LEAKED) | self.leaked_only[ids] * np.uint8(FLAG_LEAKED_ONLY)
        flags |= np.where(ordinal < UNKNOWN_U4, FLAG_HASHED, 0).astype(np.uint8)
        flags |= np.where(ids == descriptor.null_block, FLAG_NULL_BLOCK, 0).astype(np.uint8)
        fill = fill_bytes(block_map.slots[ids], unknown, descriptor.block_size)
        return Picture(block_map.state[ids], ref_bytes(ref), fill, flags)
