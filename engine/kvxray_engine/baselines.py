"""How memory was reserved before paging, for comparison: one contiguous range for the whole life of a request.

- contiguous: the longest sequence there may be, for everybody, since nobody knows how long an answer becomes;
- buddy: the power of two that holds prompt and the most tokens asked for, from a buddy allocator.

They stand behind the same scheduler and the same pool as paging, so that waste and concurrency on one trace compare.
Nothing is shared: a range belongs to one request.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from kvxray_engine.block_pool import NULL_BLOCK, BlockPool
from kvxray_engine.errors import UserError
from kvxray_engine.kv_cache_manager import KVCacheManager
from kvxray_engine.prefix_cache import PrefixCache
from kvxray_engine.request import Request
from kvxray_engine.stream.schema import Cause


class Allocation(Enum):
    """How requests get their memory."""

    paged = "paged"
    contiguous = "contiguous"
    buddy = "buddy"


def make_manager(
    allocation: Allocation, pool: BlockPool, prefix_cache: PrefixCache, watermark: float, max_model_len: int
) -> KVCacheManager:
    """The manager for a way to allocate. `max_model_len`: tokens of the longest sequence.

    Raises UserError when the pool has no power of two that holds it, and a buddy allocator is wanted.
    """
    if allocation is Allocation.paged:
        return KVCacheManager(pool, prefix_cache, watermark)
    longest = -(-max_model_len // pool.block_size)
    if allocation is Allocation.contiguous:
        return ReservingManager(pool, prefix_cache, FixedArena(pool.usable_blocks, longest), longest)
    arena = BuddyArena(pool.usable_blocks)
    if arena.size_for(longest) > arena.largest:
        raise UserError(
            f"A buddy allocator needs {arena.size_for(longest)} blocks in one range for a sequence of {max_model_len} "
            f"tokens, and its largest has {arena.largest}: give the pool more blocks or lower max_model_len."
        )
    return ReservingManager(pool, prefix_cache, arena, longest)


class Arena(Protocol):
    """Ranges of addresses 0, 1, … of blocks; a range is known by its first address."""

    def size_for(self, blocks: int) -> int:
        """Blocks that a reservation of so many takes."""

    def can_reserve(self, blocks: int) -> bool: ...

    def reserve(self, blocks: int) -> int:
        """The first address of a free range."""

    def release(self, start: int, blocks: int) -> None: ...


class FixedArena:
    """Ranges of one size, side by side; what is left over at the end is never used."""

    def __init__(self, num_blocks: int, size: int) -> None:
        self.size = size
        self._free = list(range(0, num_blocks - size + 1, size))

    def size_for(self, blocks: int) -> int:
        return self.size

    def can_reserve(self, blocks: int) -> bool:
        return bool(self._free)

    def reserve(self, blocks: int) -> int:
        return self._free.pop()

    def release(self, start: int, blocks: int) -> None:
        self._free.append(start)


class BuddyArena:
    """Powers of two: a free range is halved until it fits, two free halves are joined again (Knuth, volume 1, 2.5).

    A number of blocks that is no power of two is cut into the powers that add up to it, the largest first. So every
    range begins at a multiple of its size, and the buddy of a range differs from it in one bit.
    """

    def __init__(self, num_blocks: int) -> None:
        self.largest = 1 << num_blocks.bit_length() - 1
        self._ranges: dict[int, set[int]] = {}  # size -> starts of free ranges
        start = 0
        for bit in reversed(range(num_blocks.bit_length())):
            size = 1 << bit
            self._ranges[size] = set()
            if num_blocks & size:
                self._ranges[size].add(start)
                start += size

    def size_for(self, blocks: int) -> int:
        return 1 << (blocks - 1).bit_length()

    def can_reserve(self, blocks: int) -> bool:
        wanted = self.size_for(blocks)
        return any(starts for size, starts in self._ranges.items() if size >= wanted)

    def reserve(self, blocks: int) -> int:
        wanted = self.size_for(blocks)
        size = min(size for size, starts in self._ranges.items() if starts and size >= wanted)
        start = min(self._ranges[size])
        self._ranges[size].remove(start)
        while size > wanted:
            size //= 2
            self._ranges[size].add(start + size)
        return start

    def release(self, start: int, blocks: int) -> None:
        size = self.size_for(blocks)
        while size < self.largest and start ^ size in self._ranges[size]:
            self._ranges[size].remove(start ^ size)
            start &= ~size
            size *= 2
        self._ranges[size].add(start)


class ReservingManager(KVCacheManager):
    """Reserves once, at admission, and never again: no request that runs can lack a slot, so none is preempted.

    Invariant: the block table of a request that runs is a range of block ids of the arena's size.
    """

    def __init__(self, pool: BlockPool, prefix_cache: PrefixCache, arena: Arena, longest: int) -> None:
        assert not prefix_cache.enabled, "a range belongs to one request"
        super().__init__(pool, prefix_cache)
        self.arena = arena
        self.longest = longest  # blocks of a sequence

    def can_admit(self, request: Request, num_new_tokens: int, hits: list[int], others_run: bool) -> bool:
        return self.arena.can_reserve(self._wanted(request))

    def allocate_slots(self, request: Request, num_new_tokens: int, hits: list[int] | None = None) -> list[int] | None:
        if request.block_table:
            return []
        wanted = self._wanted(request)
        if not self.arena.can_reserve(wanted):
            return None
        first = NULL_BLOCK + 1 + self.arena.reserve(wanted)
        request.block_table = list(range(first, first + self.arena.size_for(wanted)))
        self.pool.claim(request.block_table, request.ordinal)
        return request.block_table

    def free(self, request: Request, cause: Cause) -> None:
        if request.block_table:
            self.arena.release(request.block_table[0] - NULL_BLOCK - 1, len(request.block_table))
        super().free(request, cause)

    def _wanted(self, request: Request) -> int:
        return min(self.longest, self._blocks_for(request.num_prompt_tokens + request.sampling.max_tokens))
