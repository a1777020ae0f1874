"""Prefix cache and block tables: who may share what, what fits, and that a refusal changes nothing."""

from kvxray_engine.block_pool import BlockPool
from kvxray_engine.kv_cache_manager import KVCacheManager
from kvxray_engine.prefix_cache import PrefixCache
from kvxray_engine.request import Request
from kvxray_engine.step_batch import SamplingParams
from kvxray_engine.stream.recorder import NullRecorder
from kvxray_engine.stream.schema import Cause, Name

BLOCK_SIZE = 4


class World:
    """A pool with its prefix cache and block tables, and the requests that live in it."""

    def __init__(self, num_blocks: int = 11, enabled: bool = True, watermark: float = 0.0) -> None:
        self.pool = BlockPool(num_blocks, BLOCK_SIZE, NullRecorder())
        self.cache = PrefixCache(self.pool, enabled)
        self.manager = KVCacheManager(self.pool, self.cache, watermark)
        self.requests: list[Request] = []

    def request(self, tokens: list[int], lora: str = "", salt: str = "") -> Request:
        number = len(self.requests)
        request = Request(
            f"r{number}", number, Name(f"r{number}"), list(tokens), len(tokens), SamplingParams(),
            lora_name=lora, lora_path=lora, cache_salt=salt,
        )  # fmt: skip
        self.requests.append(request)
        return request

    def compute(self, request: Request, num_tokens: int | None = None) -> list[int] | None:
        """Allocates and "computes": all tokens left, after a lookup when the request has no blocks yet."""
        hits = [] if request.block_table else self.cache.longest_hit(request)
        left = request.num_tokens - request.num_computed_tokens - len(hits) * BLOCK_SIZE
        new_tokens = left if num_tokens is None else num_tokens
        blocks = self.manager.allocate_slots(request, new_tokens, hits)
        if blocks is not None:
            request.num_computed_tokens += new_tokens
        self.manager.check_integrity(self.requests)
        return blocks

    def finish(self, request: Request) -> None:
        self.manager.free(request, Cause.finish)
        self.manager.check_integrity(self.requests)

    def state(self) -> tuple:
        return self.pool.free_queue(), self.pool.ref_cnt[:], dict(self.pool.cached_blocks)


def test_a_second_prompt_shares_the_blocks_of_the_first() -> None:
    world = World()
    first, second = world.request([*range(10)]), world.request([*range(8), 99])
    assert world.compute(first) == [1, 2, 3]
    assert world.compute(second) == [4]
    assert second.block_table == [1, 2, 4]
    assert world.pool.ref_cnt[:5] == [0, 2, 2, 1, 1]


def test_a_prompt_cached_whole_still_computes_its_last_block() -> None:
    world = World()
    world.compute(world.request([*range(8)]))
    again = world.request([*range(8)])
    assert world.cache.longest_hit(again) == [1]
    world.compute(again)
    assert again.block_table == [1, 3], "its second block is a duplicate of the first request's"
    assert world.pool.cached_blocks[again.block_hashes[1]] == {2: None, 3: None}


def test_a_hit_ends_at_the_first_block_that_is_gone() -> None:
    world = World()
    first = world.request([*range(13)])
    world.compute(first)
    world.finish(first)
    world.pool.evict([2])
    assert world.cache.longest_hit(world.request([*range(13)])) == [1]


def test_a_block_gets_its_hash_when_its_last_token_is_computed() -> None:
    world = World()
    request = world.request([1, 2, 3])
    world.compute(request)
    assert world.pool.num_hashed == 0
    request.token_ids.append(4)
    world.compute(request)
    assert (world.pool.num_hashed, request.num_cached_blocks) == (1, 1)


def test_chunks_are_hashed_as_one_batch_would_be() -> None:
    chunked, whole = World(), World()
    request = chunked.request([*range(14)])
    for size in (3, 5, 1, 5):
        chunked.compute(request, size)
    other = whole.request([*range(14)])
    whole.compute(other)
    assert request.block_hashes == other.block_hashes
    assert chunked.pool.block_hash == whole.pool.block_hash


def test_other_adapters_and_salts_share_nothing() -> None:
    world = World(num_blocks=40)
    kinds = [("", ""), ("adapter", ""), ("", "tenant-a"), ("", "tenant-b"), ("adapter", "tenant-a")]
    for lora, salt in kinds:
        request = world.request([*range(9)], lora, salt)
        assert world.cache.longest_hit(request) == []
        world.compute(request)
    for lora, salt in kinds:
        assert len(world.cache.longest_hit(world.request([*range(9)], lora, salt))) == 2


def test_without_prefix_caching_nothing_is_hashed_or_counted() -> None:
    world = World(enabled=False)
    world.compute(world.request([*range(9)]))
    second = world.request([*range(9)])
    world.compute(second)
    assert second.block_table == [4, 5, 6]
    assert world.pool.num_hashed == 0
    assert world.cache.count(second, 0) == (0, 0)


def test_hits_nobody_references_count_against_the_free_blocks() -> None:
    world = World(num_blocks=9)
    cached, holder = world.request([*range(12)]), world.request([*range(100, 112)])
    world.compute(cached)
    world.compute(holder)
    world.finish(cached)
    assert world.pool.num_free == 5
    # Three of the five free blocks are the hits themselves: two are left, for eight tokens and not for nine.
    too_long, fits = world.request([*range(12), *range(50, 59)]), world.request([*range(12), *range(50, 58)])
    before = world.state()
    assert world.compute(too_long) is None
    assert world.state() == before, "a refusal changes nothing"
    assert world.compute(fits) == [7, 8]


def test_an_admission_must_fit_whole_though_its_first_chunk_would() -> None:
    world = World(num_blocks=5)
    request = world.request([*range(20)])
    assert not world.manager.can_admit(request, 4, [], others_run=False)
    assert world.manager.can_admit(world.request([*range(16)]), 4, [], others_run=False)


def test_the_watermark_holds_blocks_back_only_while_others_run() -> None:
    world = World(num_blocks=11, watermark=0.2)
    request = world.request([*range(36)])
    assert world.manager.can_admit(request, 36, [], others_run=False)
    assert not world.manager.can_admit(request, 36, [], others_run=True)
    assert world.manager.can_admit(world.request([*range(32)]), 32, [], others_run=True)


def test_counts_of_admissions() -> None:
    world = World()
    world.compute(world.request([*range(10)]))
    second = world.request([*range(10)])
    assert world.cache.count(second, len(world.cache.longest_hit(second))) == (10, 8)
    assert (second.queried_tokens, second.hit_tokens) == (10, 8)
    assert (world.cache.stats.requests, world.cache.stats.hit_tokens) == (1, 8)
