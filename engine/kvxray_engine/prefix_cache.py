"""The prefix cache: which blocks of the pool already hold the beginning of a request.

A request's full blocks are hashed in a chain, each once, as its tokens come. A lookup walks the chain until the first
hash nobody carries. This file decides what may be shared; the block pool decides how long it is kept.
"""

from __future__ import annotations

from dataclasses import dataclass

from kvxray_engine.block_pool import NULL_BLOCK, BlockPool
from kvxray_engine.hashing import NONE_HASH, BlockHash, extra_keys, hash_block
from kvxray_engine.request import Request


@dataclass(slots=True)
class PrefixCacheStats:
    """Counted at admissions, so that a request waiting for room is not counted at every step it waits.

    `readmitted_*`: the share of requests that had run before and were preempted; vLLM counts them apart, since hitting
    one's own blocks says nothing of sharing.
    """

    requests: int = 0
    queried_tokens: int = 0
    hit_tokens: int = 0
    readmitted_requests: int = 0
    readmitted_queried_tokens: int = 0
    readmitted_hit_tokens: int = 0


class PrefixCache:
    """Chains of block hashes over a pool. `enabled` False: nothing is hashed, looked up or counted."""

    def __init__(self, pool: BlockPool, enabled: bool = True, none_hash: BlockHash = NONE_HASH) -> None:
        self.pool = pool
        self.block_size = pool.block_size
        self.enabled = enabled
        self.none_hash = none_hash
        self.stats = PrefixCacheStats()

    def longest_hit(self, request: Request) -> list[int]:
        """Blocks that hold the beginning of the request's tokens, in order.

        At least the last token is left to be computed, since its logits are wanted: a prompt that is cached whole and
        ends with its block loses that block.
        """
        if not self.enabled:
            return []
        self.hash_full_blocks(request)
        hits: list[int] = []
        for block_hash in request.block_hashes[: (request.num_tokens - 1) // self.block_size]:
            block = self.pool.lookup(block_hash)
            if block is None:
                break
            hits.append(block)
        return hits

    def count(self, request: Request, num_hit_blocks: int) -> tuple[int, int]:
        """Counts one admission; returns (tokens queried, tokens hit)."""
        if not self.enabled:
            return 0, 0
        queried, hit = request.num_tokens, num_hit_blocks * self.block_size
        request.queried_tokens += queried
        request.hit_tokens += hit
        stats = self.stats
        stats.requests += 1
        stats.queried_tokens += queried
        stats.hit_tokens += hit
        if request.num_preemptions:
            stats.readmitted_requests += 1
            stats.readmitted_queried_tokens += queried
            stats.readmitted_hit_tokens += hit
        return queried, hit

    def cache_full_blocks(self, request: Request, num_tokens: int) -> None:
        """Gives hashes to the blocks that the first `num_tokens` tokens fill, where they have none yet."""
        full = num_tokens // self.block_size
        start = request.num_cached_blocks
        if not self.enabled or full <= start:
            return
        self.hash_full_blocks(request)
        blocks = request.block_table[start:full]
        parent_block = request.block_table[start - 1] if start else NULL_BLOCK
        self.pool.cache(blocks, request.block_hashes[start:full], request.ordinal, parent_block)
        request.num_cached_blocks = full

    def hash_full_blocks(self, request: Request) -> None:
        """Extends the request's chain over every block its known tokens fill."""
        size, hashes = self.block_size, request.block_hashes
        parent = hashes[-1] if hashes else self.none_hash
        for index in range(len(hashes), request.num_tokens // size):
            keys = extra_keys(request.lora_name, request.lora_path, request.cache_salt, first_block=index == 0)
            parent = hash_block(parent, request.token_ids[index * size : (index + 1) * size], keys)
            hashes.append(parent)
