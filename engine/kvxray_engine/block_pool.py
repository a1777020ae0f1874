"""The pool of KV cache blocks: who is referenced, what is cached, and in which order blocks are given out again.

Plain Python lists indexed by block id and a free queue of links: measured 5 times faster than an object a block.
Operations are whole-request ones, and each hands the list it built to the recorder in one call. The pool knows
ordinals of holders, but no requests, no tokens and no model.

Rules, as vLLM 0.33 has them:
- Block 0 is the null block: never given out, never cached, never counted.
- A freed block without a hash goes to the front of the queue (reused at once); one with a hash goes to the tail and
  stays cached until its turn comes: eviction happens at allocation, in the order of the queue.
- A hash may be on several blocks; a lookup answers with the first of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import Enum

from kvxray_engine.free_queue import FreeQueue
from kvxray_engine.hashing import BlockHash
from kvxray_engine.stream.recorder import NullRecorder
from kvxray_engine.stream.schema import NO_ORDINAL, Cause, Kind, QueueEnd

NULL_BLOCK = 0
NO_PARENT = -1
ALL_MEDIA = 255

# Read once: in Python 3.11 to read a member of an enum class costs more than most of what is done here with a block.
_ALLOCATED, _REFERENCED, _DEREFERENCED = Kind.BlockAllocated, Kind.BlockReferenced, Kind.BlockDereferenced
_FREED, _EVICTED = Kind.BlockFreed, Kind.BlockEvicted
_NO_CAUSE, _HIT, _FOR_ALLOCATION = Cause.none, Cause.hit, Cause.allocation
_FRONT, _TAIL = QueueEnd.front, QueueEnd.tail


class FreeOrder(Enum):
    """Where freed blocks enter the free queue."""

    unhashed_first = "unhashed_first"  # vLLM from 0.24: blocks without a hash to the front, the others to the tail
    all_appended = "all_appended"  # older vLLM: every freed block to the tail


class BlockPool:
    """Blocks 0..num_blocks-1 of `block_size` tokens.

    Invariants (`check_integrity`): a usable block is in the free queue exactly when its ref_cnt is 0; a hash maps to
    the blocks that carry it and to no others; blocks at or above `high_water` have never been allocated.
    """

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        recorder: NullRecorder,
        free_order: FreeOrder = FreeOrder.unhashed_first,
    ) -> None:
        assert num_blocks >= 2, "a pool needs the null block and at least one block to use"
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.recorder = recorder
        self.free_order = free_order
        self._keeps_order = free_order is FreeOrder.all_appended
        self.ref_cnt = [0] * num_blocks
        self.block_hash: list[BlockHash | None] = [None] * num_blocks
        self.hash_ordinal = [NO_ORDINAL] * num_blocks  # of the block's hash in the stream
        self.parent_ordinal = [NO_ORDINAL] * num_blocks  # of the hash before it in its chain
        self.slots = [0] * num_blocks  # tokens written
        # hash -> the block that carries it, or, for duplicates, all of them in the order they were cached.
        self.cached_blocks: dict[BlockHash, int | dict[int, None]] = {}
        self.num_free = num_blocks - 1
        self.num_hashed = 0  # blocks that carry a hash, referenced or not
        self.ref_sum = 0
        self.high_water = 1
        self._queue = FreeQueue(num_blocks)

    @property
    def usable_blocks(self) -> int:
        return self.num_blocks - 1

    @property
    def usage(self) -> float:
        """Share of the usable blocks that is referenced, 0..1: cached blocks nobody references count as free."""
        return 1.0 - self.num_free / self.usable_blocks

    def allocate(self, n: int, req: int) -> list[int]:
        """The next n blocks of the free queue, for holder `req`, with ref_cnt 1; what they cached is evicted."""
        assert n <= self.num_free, f"{n} blocks wanted, {self.num_free} free: ask num_free before allocating"
        queue, hashes, refs, slots = self._queue, self.block_hash, self.ref_cnt, self.slots
        following = queue.following
        blocks: list[int] = []
        evicted: list[int] = []
        block = following[self.num_blocks]
        for _ in range(n):
            blocks.append(block)
            if hashes[block] is not None:
                evicted.append(block)
            refs[block] = 1
            slots[block] = 0
            block = following[block]
        following[self.num_blocks] = block
        queue.previous[block] = self.num_blocks
        self.num_free -= n
        self.ref_sum += n
        if self.high_water < self.num_blocks and blocks:
            self.high_water = max(self.high_water, max(blocks) + 1)
        if evicted:
            self._drop_hashes(evicted)
            self.recorder.rows(_EVICTED, _FOR_ALLOCATION, req, evicted)
        self.recorder.rows(_ALLOCATED, _NO_CAUSE, req, blocks)
        return blocks

    def claim(self, blocks: list[int], req: int) -> None:
        """These free blocks, for holder `req`: for those who choose addresses themselves. Else like `allocate`."""
        assert not any(self.ref_cnt[block] for block in blocks), "a block that somebody holds cannot be claimed"
        evicted = [block for block in blocks if self.block_hash[block] is not None]
        if evicted:
            self._drop_hashes(evicted)
            self.recorder.rows(_EVICTED, _FOR_ALLOCATION, req, evicted)
        for block in blocks:
            self._queue.unlink(block)
            self.ref_cnt[block] = 1
            self.slots[block] = 0
        self.num_free -= len(blocks)
        self.ref_sum += len(blocks)
        self.high_water = max(self.high_water, max(blocks, default=0) + 1)
        self.recorder.rows(_ALLOCATED, _NO_CAUSE, req, blocks)

    def touch(self, blocks: list[int], req: int, cause: Cause = _HIT) -> None:
        """Holder `req` references cached blocks: those nobody referenced leave the free queue."""
        refs, following, previous = self.ref_cnt, self._queue.following, self._queue.previous
        for block in blocks:
            if not refs[block]:
                before, after = previous[block], following[block]
                following[before] = after
                previous[after] = before
                self.num_free -= 1
            refs[block] += 1
        self.ref_sum += len(blocks)
        if self.recorder.enabled:
            self.recorder.values(_REFERENCED, cause, req, blocks, [refs[block] for block in blocks])

    def free(self, blocks: Sequence[int], req: int, cause: Cause) -> None:
        """Holder `req` lets go of blocks, given in the order in which they shall be evicted: a block table reversed, so
        that the end of a chain goes before what it depends on."""
        refs, hashes = self.ref_cnt, self.block_hash
        keep_order = self._keeps_order
        front: list[int] = []
        tail: list[int] = []
        still_referenced: list[int] = []
        for block in blocks:
            ref = refs[block] = refs[block] - 1
            if ref > 0:
                still_referenced.append(block)
            elif ref < 0:
                raise AssertionError(f"block {block} is freed twice")
            elif keep_order or hashes[block] is not None:
                tail.append(block)
            else:
                front.append(block)
        self.ref_sum -= len(blocks)
        self.num_free += len(tail) + len(front)
        self._queue.append(tail)
        self._queue.prepend(front)
        recorder = self.recorder
        if recorder.enabled:
            recorder.rows(_FREED, cause, req, tail, _TAIL)
            if front:
                recorder.rows(_FREED, cause, req, front, _FRONT)
            if still_referenced:
                refs_after = [refs[block] for block in still_referenced]
                recorder.values(_DEREFERENCED, cause, req, still_referenced, refs_after)

    def cache(self, blocks: list[int], hashes: list[BlockHash], req: int, parent_block: int = NULL_BLOCK) -> None:
        """Gives full blocks, a run of a chain, their hashes. `parent_block`: the block before the first of them in the
        chain, the null block when the chain begins here."""
        parent = self.hash_ordinal[parent_block] if parent_block else NO_PARENT
        ordinal = self.recorder.cached(req, blocks, hashes, parent)
        block_size, cached = self.block_size, self.cached_blocks
        parent = NO_ORDINAL if parent == NO_PARENT else parent
        for block, block_hash in zip(blocks, hashes, strict=True):
            assert self.block_hash[block] is None, f"block {block} carries a hash already"
            self.block_hash[block] = block_hash
            self.slots[block] = block_size
            self.hash_ordinal[block] = ordinal
            self.parent_ordinal[block] = parent
            parent = ordinal
            ordinal += 1
            entry = cached.setdefault(block_hash, block)
            if entry != block:
                if isinstance(entry, dict):
                    entry[block] = None
                else:
                    cached[block_hash] = {entry: None, block: None}
        self.num_hashed += len(blocks)

    def lookup(self, block_hash: BlockHash) -> int | None:
        """The block a prompt may reuse for this hash; of duplicates the first cached."""
        entry = self.cached_blocks.get(block_hash)
        return next(iter(entry)) if isinstance(entry, dict) else entry

    def fill(self, blocks: list[int], slots: list[int]) -> None:
        """Tells how many tokens blocks without a hash hold now: once a step, for all that were written in it."""
        for block, count in zip(blocks, slots, strict=True):
            self.slots[block] = count
        self.recorder.filled(blocks, slots)

    def evict(self, blocks: list[int]) -> None:
        """Drops the hashes of these blocks, referenced or not; they keep their place in the free queue."""
        evicted = [block for block in blocks if self.block_hash[block] is not None]
        if not evicted:
            return
        self._drop_hashes(evicted)
        self.recorder.rows(_EVICTED, Cause.explicit, NO_ORDINAL, evicted)

    def reset(self) -> bool:
        """Forgets everything cached; refused, and nothing changed, while any block is referenced."""
        if self.ref_sum:
            return False
        self._drop_hashes([block for block, block_hash in enumerate(self.block_hash) if block_hash is not None])
        self.recorder.op(Kind.CacheCleared, Cause.explicit, NO_ORDINAL, ALL_MEDIA)
        return True

    def free_queue(self) -> list[int]:
        """Free block ids, head (the next to be allocated) first."""
        return self._queue.blocks()

    def _drop_hashes(self, blocks: list[int]) -> None:
        cached = self.cached_blocks
        for block in blocks:
            block_hash = self.block_hash[block]
            assert block_hash is not None, f"block {block} carries no hash to drop"
            self.block_hash[block] = None
            self.hash_ordinal[block] = NO_ORDINAL
            self.parent_ordinal[block] = NO_ORDINAL
            entry = cached[block_hash]
            if isinstance(entry, dict):
                del entry[block]
                if entry:
                    continue
            del cached[block_hash]
        self.num_hashed -= len(blocks)

    def check_integrity(self) -> None:
        """Asserts every law of the pool; walks all of it, so for tests."""
        self._check_queue()
        self._check_hashes()
        assert self.ref_sum == sum(self.ref_cnt), f"ref_sum {self.ref_sum} but the blocks say {sum(self.ref_cnt)}"
        assert all(0 <= slots <= self.block_size for slots in self.slots), "a block holds more tokens than it has slots"
        for block in (NULL_BLOCK, *range(self.high_water, self.num_blocks)):
            untouched = (self.ref_cnt[block], self.block_hash[block], self.slots[block]) == (0, None, 0)
            assert untouched, f"block {block} was never allocated and yet holds something"

    def _check_queue(self) -> None:
        queue = self.free_queue()
        unreferenced = [block for block in range(1, self.num_blocks) if self.ref_cnt[block] == 0]
        assert min(self.ref_cnt) >= 0, "a ref_cnt is negative"
        assert sorted(queue) == unreferenced, "the free queue and the blocks with ref_cnt 0 differ"
        assert len(queue) == self.num_free, f"num_free is {self.num_free}, the queue holds {len(queue)}"
        self._queue.check_integrity()

    def _check_hashes(self) -> None:
        on_blocks = Counter(block_hash for block_hash in self.block_hash if block_hash is not None)
        assert on_blocks.total() == self.num_hashed, f"num_hashed is {self.num_hashed}, blocks say {on_blocks.total()}"
        assert on_blocks.keys() == self.cached_blocks.keys(), "the map of hashes and the blocks differ"
        for block_hash, entry in self.cached_blocks.items():
            blocks = list(entry) if isinstance(entry, dict) else [entry]
            assert len(blocks) == on_blocks[block_hash], "the map misses a duplicate of a hash"
            assert all(self.block_hash[block] == block_hash for block in blocks), "a hash maps to a block without it"
        for carried, ordinal in zip(self.block_hash, self.hash_ordinal, strict=True):
            assert (carried is None) == (ordinal == NO_ORDINAL), "a hash without its ordinal, or the reverse"
