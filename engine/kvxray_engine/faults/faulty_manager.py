"""A manager of block tables that makes mistakes when requests end, and keeps account of what they leave behind."""

from __future__ import annotations

from typing import Final

from kvxray_engine.block_pool import BlockPool
from kvxray_engine.faults.endings import EndingFault
from kvxray_engine.kv_cache_manager import KVCacheManager
from kvxray_engine.prefix_cache import PrefixCache
from kvxray_engine.request import Request
from kvxray_engine.stream.pool_dump import RequestDump
from kvxray_engine.stream.schema import Cause, Name, RequestStatus

MAX_LOST_SHARE: Final = 0.4
"""Nothing more is left behind once this share of the pool is lost: an engine without blocks shows nothing."""


class FaultyManager(KVCacheManager):
    """Asks each fault at each end. A request that is preempted has not ended."""

    def __init__(
        self, pool: BlockPool, prefix_cache: PrefixCache, watermark: float, endings: tuple[EndingFault, ...]
    ) -> None:
        super().__init__(pool, prefix_cache, watermark)
        self.endings = endings
        self._lost: set[int] = set()

    def free(self, request: Request, cause: Cause) -> None:
        if not request.block_table or cause is Cause.preempt:
            super().free(request, cause)
            return
        blocks = list(request.block_table)
        kept: set[int] = set()
        if len(self._lost) < MAX_LOST_SHARE * self.pool.usable_blocks:
            for ending in self.endings:
                kept.update(ending.kept(self, request, cause))
                ending.before(self, request, cause)
        if kept:
            self._keep(request, kept, cause)
        else:
            super().free(request, cause)
        for ending in self.endings:
            ending.after(self, request, [block for block in blocks if block not in kept], cause)

    def give_to(self, name: Name, blocks: list[int], cause: Cause) -> int:
        """Somebody who never lets go holds these blocks too; their ordinal."""
        ordinal = self.pool.recorder.new_holder(name)
        self.pool.touch(blocks, ordinal, cause)
        self._lose(blocks, ordinal)
        self.other_holders.append(RequestDump(ordinal, name, RequestStatus.unknown))
        return ordinal

    def _keep(self, request: Request, kept: set[int], cause: Cause) -> None:
        """The request is gone, and some of its references stay."""
        table = request.block_table
        computed = request.num_computed_tokens // self.pool.block_size
        self.pool.evict(table[computed : request.num_cached_blocks])
        self._lose([block for block in table if block in kept], request.ordinal)
        self.leaking.append(request)
        self.pool.free([block for block in reversed(table) if block not in kept], request.ordinal, cause)
        self._forget(request)

    def _lose(self, blocks: list[int], holder: int) -> None:
        self.leaked_holds.extend((block, holder) for block in blocks)
        self._lost.update(blocks)
