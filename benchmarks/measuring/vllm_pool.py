"""vLLM's own block pool on the workload of benchmarks/pool.py. Imported only in an interpreter that has vLLM."""

from __future__ import annotations

import vllm
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.block_pool import BlockPool
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.request import Request

from benchmarks.measuring.interleave import Variant
from benchmarks.pool import BLOCK_SIZE, BLOCKS, POOL, PROMPTS

init_none_hash(sha256)
HASHER = get_request_block_hasher(BLOCK_SIZE, sha256)


def version() -> str:
    return str(vllm.__version__)


def whole(events: bool) -> Variant:
    pool = BlockPool(POOL, True, BLOCK_SIZE, enable_kv_cache_events=events)
    requests = [make_request(prompt, BLOCKS) for prompt in range(PROMPTS)]

    def run() -> int:
        for request in requests:
            blocks = pool.get_new_blocks(BLOCKS)
            cache(pool, request, blocks, BLOCKS)
            pool.free_blocks(reversed(blocks))
            if events:
                pool.kv_event_queue.clear()
        return PROMPTS * BLOCKS

    return run


def single(events: bool) -> Variant:
    """Requests of one block each, so that every block has a hash of its own, as on our side."""
    pool = BlockPool(POOL, True, BLOCK_SIZE, enable_kv_cache_events=events)
    requests = [[make_request(prompt * BLOCKS + block, 1) for block in range(BLOCKS)] for prompt in range(PROMPTS)]

    def run() -> int:
        for prompt in requests:
            for request in prompt:
                blocks = pool.get_new_blocks(1)
                cache(pool, request, blocks, 1)
                pool.free_blocks(blocks)
            if events:
                pool.kv_event_queue.clear()
        return PROMPTS * BLOCKS

    return run


def make_request(number: int, blocks: int) -> Request:
    tokens = [(number * 131 + position) % 50_000 for position in range(blocks * BLOCK_SIZE)]
    sampling = SamplingParams(max_tokens=1)
    return Request(
        request_id=f"r{number}",
        prompt_token_ids=tokens,
        sampling_params=sampling,
        pooling_params=None,
        block_hasher=HASHER,
    )


def cache(pool: BlockPool, request: Request, blocks: list, count: int) -> None:
    pool.cache_full_blocks(
        request=request,
        blocks=blocks,
        num_cached_blocks=0,
        num_full_blocks=count,
        block_size=BLOCK_SIZE,
        kv_cache_group_id=0,
    )
