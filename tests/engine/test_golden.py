"""Pool, prefix cache and block tables against vLLM 0.33's own: recorded random operations, compared after each.

tests/data/vllm_manager_traces.json.gz: what vLLM's KVCacheManager (Apache-2.0) answered to adds, steps, frees and
resets of the prefix cache.
"""

import gzip
import json
from pathlib import Path

import pytest
from kvxray_engine.block_pool import BlockPool
from kvxray_engine.kv_cache_manager import KVCacheManager
from kvxray_engine.prefix_cache import PrefixCache
from kvxray_engine.request import Request
from kvxray_engine.step_batch import SamplingParams
from kvxray_engine.stream.recorder import NullRecorder
from kvxray_engine.stream.schema import Cause, Name

TRACES = json.loads(gzip.decompress((Path(__file__).parents[1] / "data" / "vllm_manager_traces.json.gz").read_bytes()))


class Replayer:
    """Our side of one trace."""

    def __init__(self, trace: dict) -> None:
        self.block_size = trace["block_size"]
        self.pool = BlockPool(trace["num_blocks_including_null"], self.block_size, NullRecorder())
        self.manager = KVCacheManager(self.pool, PrefixCache(self.pool))
        self.live: dict[str, Request] = {}
        self.added = 0

    def play(self, op: dict) -> None:
        getattr(self, op["op"])(op)
        assert self.pool.free_queue() == op["free_order"]
        assert {str(block): ref for block, ref in enumerate(self.pool.ref_cnt) if ref} == op["ref_cnt"]
        assert [block for block, one in enumerate(self.pool.block_hash) if one is not None] == op["cached"]
        assert self.pool.usage == op["usage"]
        self.manager.check_integrity(self.live.values())

    def add(self, op: dict) -> None:
        tokens = list(op["tokens"])
        name, salt = op["id"], op["cache_salt"] or ""
        request = Request(name, self.added, Name(name), tokens, len(tokens), SamplingParams(), cache_salt=salt)
        self.added += 1
        hits = self.manager.prefix_cache.longest_hit(request)
        assert (hits, len(hits) * self.block_size) == (op["hit_blocks"], op["hit_tokens"])
        new_blocks = self.manager.allocate_slots(request, op["chunk"], hits)
        assert new_blocks == op["new_blocks"]
        if new_blocks is not None:
            request.num_computed_tokens += op["chunk"]
            self.live[name] = request

    def step(self, op: dict) -> None:
        request = self.live[op["id"]]
        request.token_ids.extend(op["append"] or [])
        new_blocks = self.manager.allocate_slots(request, op["num_new_tokens"])
        assert new_blocks == op["new_blocks"]
        if new_blocks is None:
            assert op["then"] == "preempt_free"
            self.manager.free(self.live.pop(op["id"]), Cause.preempt)
        else:
            request.num_computed_tokens += op["num_new_tokens"]

    def free(self, op: dict) -> None:
        self.manager.free(self.live.pop(op["id"]), Cause.finish)

    def reset_prefix_cache(self, op: dict) -> None:
        assert self.manager.reset_prefix_cache() == op["ok"]


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: f"seed {trace['seed']}")
def test_every_answer_is_vllms(trace: dict) -> None:
    replayer = Replayer(trace)
    for op in trace["ops"]:
        replayer.play(op)
    assert replayer.added > 50
