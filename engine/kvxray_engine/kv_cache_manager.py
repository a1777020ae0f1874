"""Gives requests the blocks they need and takes them back: all or nothing.

The scheduler asks here, never the pool: how many blocks an admission or one more token takes, what of it the prefix
cache already has, whether it fits. A refusal changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from kvxray_engine.block_pool import BlockPool
from kvxray_engine.prefix_cache import PrefixCache
from kvxray_engine.request import Request
from kvxray_engine.stream.pool_dump import RequestDump
from kvxray_engine.stream.schema import Cause


@dataclass(slots=True)
class SlotUse:
    """Slots of all block tables given back so far, and those of them that were written. A block counts once a table."""

    reserved: int = 0
    written: int = 0

    @property
    def waste_ratio(self) -> float | None:
        """Reserved slots never written / reserved slots; None before anything was given back."""
        return 1 - self.written / self.reserved if self.reserved else None


class KVCacheManager:
    """Block tables over one pool.

    `watermark`: share of the pool's blocks that an admission must leave free while others run, against admitting what
    the next steps would preempt. `leaked_holds`: (block id, ordinal) that a fault left behind; they count as holds, by
    ended requests (`leaking`) or by others.
    """

    def __init__(self, pool: BlockPool, prefix_cache: PrefixCache, watermark: float = 0.0) -> None:
        self.pool = pool
        self.prefix_cache = prefix_cache
        self.watermark_blocks = int(watermark * pool.num_blocks)
        self.leaked_holds: list[tuple[int, int]] = []
        self.leaking: list[Request] = []
        self.other_holders: list[RequestDump] = []
        self.slot_use = SlotUse()

    def can_admit(self, request: Request, num_new_tokens: int, hits: list[int], others_run: bool) -> bool:
        """Whether a waiting request fits: these hits, this chunk, and, in time, the whole of its known tokens, so that
        its own later chunks need not preempt anybody."""
        tokens = max(len(hits) * self.pool.block_size + num_new_tokens, request.num_tokens)
        return self._fits(self._blocks_for(tokens), hits, self.watermark_blocks if others_run else 0)

    def allocate_slots(self, request: Request, num_new_tokens: int, hits: list[int] | None = None) -> list[int] | None:
        """Slots for the next tokens of a request, after `hits` of a first admission; the new block ids, or None.

        Blocks that these tokens fill are cached at once: within the step, attention of one layer reads only after all
        keys and values of that layer are written, so that even a request of the same step may share them.
        """
        hits = hits or []
        table, size = request.block_table, self.pool.block_size
        assert not (hits and table), "prefix hits come first in a block table"
        end = request.num_computed_tokens + len(hits) * size + num_new_tokens
        missing = -(-end // size) - len(table)
        new_blocks: list[int] = []
        if missing > 0:  # most decode tokens find room in the last block
            if not self._fits(missing, hits, 0):
                return None
            if hits:
                self._take_hits(request, hits)
            new_blocks = self.pool.allocate(missing - len(hits), request.ordinal)
            table.extend(new_blocks)
        if end // size > request.num_cached_blocks:
            self.prefix_cache.cache_full_blocks(request, min(end, request.num_tokens))
        return new_blocks

    def free(self, request: Request, cause: Cause) -> None:
        """Takes back every block, the last of the table first: the end of a chain is evicted before its head.

        Blocks that got their hashes for tokens of a step that will not be computed lose them: nobody may hit those.
        """
        if request.block_table:
            computed = request.num_computed_tokens // self.pool.block_size
            self.pool.evict(request.block_table[computed : request.num_cached_blocks])
            self.slot_use.reserved += len(request.block_table) * self.pool.block_size
            self.slot_use.written += request.num_computed_tokens
            self.pool.free(request.block_table[::-1], request.ordinal, cause)
        self._forget(request)

    def reset_prefix_cache(self) -> bool:
        """Forgets everything cached; False, and nothing changed, while any block is referenced."""
        return self.pool.reset()

    def holds(self, requests: Iterable[Request]) -> list[tuple[int, int]]:
        """(block id, holder's ordinal) of every reference."""
        return [(block, request.ordinal) for request in requests for block in request.block_table] + self.leaked_holds

    def check_integrity(self, requests: Iterable[Request]) -> None:
        """Asserts that references are exactly the holds, and that the blocks cached for a request carry its hashes."""
        requests = list(requests)
        self.pool.check_integrity()
        held = Counter(block for block, _ in self.holds(requests))
        referenced = {block: ref for block, ref in enumerate(self.pool.ref_cnt) if ref}
        assert held == referenced, f"blocks held {held} but referenced {referenced}"
        for request in requests:
            table, cached = request.block_table, request.num_cached_blocks
            assert len(table) >= self._blocks_for(request.num_computed_tokens), "computed tokens without a block"
            hashes = [self.pool.block_hash[block] for block in table[:cached]]
            assert hashes == request.block_hashes[:cached], f"{request.request_id} holds blocks of another chain"

    def _blocks_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self.pool.block_size)

    def _take_hits(self, request: Request, hits: list[int]) -> None:
        self.pool.touch(hits, request.ordinal)
        request.block_table.extend(hits)
        request.num_cached_blocks = len(hits)
        request.num_computed_tokens = len(hits) * self.pool.block_size

    def _fits(self, missing: int, hits: list[int], spare: int) -> bool:
        """`missing` blocks, of which the hits exist: those nobody references leave the free queue when touched."""
        refs = self.pool.ref_cnt
        unreferenced_hits = sum(1 for block in hits if not refs[block])
        return missing - len(hits) + unreferenced_hits + spare <= self.pool.num_free

    def _forget(self, request: Request) -> None:
        request.block_table = []
        request.num_cached_blocks = 0
        request.num_computed_tokens = 0
