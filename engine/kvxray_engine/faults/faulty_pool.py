"""A pool whose counts go wrong and that lives on: it forgives, as engines without assertions do, and tells what it did.

Frees of what is free are told and change nothing but the block's place in the queue; a count never stays below zero.
With the fault `stale-hash` a block given out anew stays in the map of hashes until it is given out again, so that
prompts may hit what it no longer holds.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

from kvxray_engine.block_pool import NULL_BLOCK, BlockPool, FreeOrder
from kvxray_engine.faults.dice import MAX_KEPT, Deed, Dice
from kvxray_engine.hashing import BlockHash
from kvxray_engine.stream.recorder import NullRecorder
from kvxray_engine.stream.schema import NO_ORDINAL, Cause, Kind, QueueEnd


class FaultyPool(BlockPool):
    """`stale`: block id -> the hash under which a prompt may still find it, though it was given out anew. `stale_dice`:
    whether that happens, where it may. `stale_hits`: by whom such a block was hit under that hash.
    """

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        recorder: NullRecorder,
        free_order: FreeOrder = FreeOrder.unhashed_first,
        stale_dice: Dice | None = None,
    ) -> None:
        super().__init__(num_blocks, block_size, recorder, free_order)
        self.stale: dict[int, BlockHash] = {}
        self.stale_dice = stale_dice
        self.stale_hits: deque[Deed] = deque(maxlen=MAX_KEPT)
        self._asked: dict[int, BlockHash] = {}

    def allocate(self, n: int, req: int) -> list[int]:
        first = self._head(n)
        for block in first:
            self._forget_stale(block)
        kept = [block for block in first if self.block_hash[block] is not None and self._stays(block, req)]
        carried = {block: (self.block_hash[block], *self._take_off(block)) for block in kept}
        blocks = super().allocate(n, req)
        for block, (block_hash, ordinal, parent) in carried.items():
            assert block_hash is not None, "only a block that carries a hash can keep it"
            self.block_hash[block] = self.stale[block] = block_hash
            self.hash_ordinal[block], self.parent_ordinal[block] = ordinal, parent
        return blocks

    def lookup(self, block_hash: BlockHash) -> int | None:
        block = super().lookup(block_hash)
        if block in self.stale:
            self._asked[block] = block_hash
        return block

    def touch(self, blocks: list[int], req: int, cause: Cause = Cause.hit) -> None:
        for block in blocks if cause is Cause.hit else ():
            if block in self.stale and self._asked.get(block) == self.stale[block]:
                self.stale_hits.append(Deed(req, (block,)))
        super().touch(blocks, req, cause)

    def free(self, blocks: Sequence[int], req: int, cause: Cause) -> None:
        counted: list[int] = []
        lacking: list[int] = []
        times: Counter[int] = Counter()  # one that was given out while it was held may be in a table twice
        for block in blocks:
            times[block] += 1
            (counted if times[block] <= self.ref_cnt[block] else lacking).append(block)
        super().free(counted, req, cause)
        self.recorder.values(Kind.BlockDereferenced, cause, req, lacking, [-1] * len(lacking))

    def free_again(self, blocks: Sequence[int], req: int, cause: Cause) -> None:
        """Tells of blocks that are free that they are freed, and moves them in the queue as if it were so."""
        tail = [block for block in blocks if self._keeps_order or self.block_hash[block] is not None]
        front = [block for block in blocks if block not in tail]
        for block in blocks:
            assert not self.ref_cnt[block], f"block {block} is held: to free it is no second time"
            self._queue.unlink(block)
        self._queue.append(tail)
        self._queue.prepend(front)
        self.recorder.rows(Kind.BlockFreed, cause, req, tail, QueueEnd.tail)
        self.recorder.rows(Kind.BlockFreed, cause, req, front, QueueEnd.front)

    def cache(self, blocks: list[int], hashes: list[BlockHash], req: int, parent_block: int = NULL_BLOCK) -> None:
        for block, block_hash in zip(blocks, hashes, strict=True):
            carried = self.block_hash[block]
            if carried is None:
                continue
            if self.stale.get(block) == carried != block_hash:
                self._take_off(block)  # the map still leads to it
            else:
                self.stale.pop(block, None)
                self.evict([block])  # two requests write to it, and the other one was faster
        knows_parent = self.hash_ordinal[parent_block] != NO_ORDINAL
        super().cache(blocks, hashes, req, parent_block if knows_parent else NULL_BLOCK)

    def reset(self) -> bool:
        done = super().reset()
        for block in list(self.stale) if done else ():
            self._forget_stale(block)
        return done

    def _head(self, n: int) -> list[int]:
        blocks: list[int] = []
        for _ in range(n):
            blocks.append(self._queue.following[blocks[-1] if blocks else self.num_blocks])
        return blocks

    def _stays(self, block: int, req: int) -> bool:
        if self.stale_dice is None or not self.stale_dice.falls():
            return False
        self.stale_dice.tell(req, (block,))
        return True

    def _take_off(self, block: int) -> tuple[int, int]:
        """The block carries no hash any more, and the map does not hear of it; the ordinals it had."""
        ordinals = self.hash_ordinal[block], self.parent_ordinal[block]
        self.block_hash[block] = None
        self.hash_ordinal[block] = self.parent_ordinal[block] = NO_ORDINAL
        return ordinals

    def _forget_stale(self, block: int) -> None:
        """The map no longer leads to this block by a hash that was written over."""
        block_hash = self.stale.pop(block, None)
        if block_hash is None or self.block_hash[block] == block_hash:
            return
        entry = self.cached_blocks.get(block_hash)
        if isinstance(entry, dict) and block in entry:
            del entry[block]
            self.num_hashed -= 1
        elif entry == block:
            self.num_hashed -= 1
        if entry in (block, {}):
            del self.cached_blocks[block_hash]
