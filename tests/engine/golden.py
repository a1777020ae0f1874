"""vLLM's own answers against our pool, prefix cache and block tables: `python -m tests.engine.golden FILE.json.gz…`

Each file holds traces of random operations on vLLM's KVCacheManager (Apache-2.0) with everything it answered. After
each operation hits, new blocks, free order, references, cached blocks, usage, vLLM's events and, at the end, its
counters must be ours. N counts operations; a trace is left at its first miss, and what comes after it counts as failed.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

from kvxray_engine.block_pool import BlockPool
from kvxray_engine.kv_cache_manager import KVCacheManager
from kvxray_engine.prefix_cache import PrefixCache
from kvxray_engine.request import Request
from kvxray_engine.step_batch import SamplingParams
from kvxray_engine.stream.recorder import Recorder
from kvxray_engine.stream.schema import Cause, Descriptor, Group, Name

from tests.engine.folded_messages import FoldedMessages
from tests.engine.verdict import BadInput, Verdict, differences, read_json, report, require

OUTCOME = ("free_order", "ref_cnt", "cached", "usage", "events")
FIELDS = {
    "add": ("id", "tokens", "cache_salt", "hit_tokens", "hit_blocks", "chunk", "new_blocks"),
    "step": ("id", "append", "num_new_tokens", "new_blocks"),
    "free": ("id",),
    "reset_prefix_cache": ("ok",),
}


def main(arguments: list[str]) -> int:
    if not arguments:
        print("Usage: python -m tests.engine.golden FILE.json.gz…", file=sys.stderr)
        return 2
    return report(partial(judge_file, Path(path)) for path in arguments)


def judge_file(path: Path) -> Verdict:
    traces = read_json(path)
    if not isinstance(traces, list) or not traces:
        raise BadInput(f"{path} holds no list of traces.")
    verdict = Verdict()
    for trace in traces:
        check_trace(trace, path.name)
        verdict += judge(trace)
    return verdict


def check_trace(trace: Any, where: str) -> None:
    """Raises BadInput unless the trace can be replayed."""
    require(trace, ("seed", "num_blocks_including_null", "block_size", "hash", "stats", "ops"), f"A trace of {where}")
    if trace["hash"] != "sha256_cbor":
        raise BadInput(f"{where} hashes with {trace['hash']}; only sha256_cbor is known.")
    for index, op in enumerate(trace["ops"]):
        at = f"Operation {index} of seed {trace['seed']} in {where}"
        require(op, ("op", *OUTCOME), at)
        if op["op"] not in FIELDS:
            raise BadInput(f"{at} is an unknown {op['op']!r}.")
        require(op, FIELDS[op["op"]], at)


def judge(trace: dict[str, Any]) -> Verdict:
    """Replays one trace."""
    replayer = Replayer(trace)
    for index, op in enumerate(trace["ops"]):
        wrong = replayer.play(op)
        if not wrong and index == len(trace["ops"]) - 1:
            wrong = differences(replayer.counters(), trace["stats"])
        if wrong:
            what = f"seed {trace['seed']}, operation {index} ({op['op']} {op.get('id', '')}): {'; '.join(wrong)}"
            return Verdict(index, len(trace["ops"]) - index, [what])
    return Verdict(passed=len(trace["ops"]))


class Replayer:
    """Our side of one trace."""

    def __init__(self, trace: dict[str, Any]) -> None:
        num_blocks, size = trace["num_blocks_including_null"], trace["block_size"]
        self.recorder = Recorder()
        self.pool = BlockPool(num_blocks, size, self.recorder)
        self.manager = KVCacheManager(self.pool, PrefixCache(self.pool))
        self.messages = FoldedMessages(self.recorder, Descriptor(num_blocks, size, 0, groups=(Group(),)))
        self.live: dict[str, Request] = {}
        self.all: dict[int, Request] = {}

    def play(self, op: dict[str, Any]) -> list[str]:
        """Does one operation; a few words for each answer that is not vLLM's."""
        try:
            answers = getattr(self, f"_{op['op']}")(op)
            self.recorder.flush()
            answers |= self._outcome()
            self.manager.check_integrity(self.live.values())
            self.messages.check_against(self.pool)
        except AssertionError as error:
            return [f"a law is broken: {error}"]
        return differences(answers, op)

    def counters(self) -> dict[str, int]:
        stats = self.manager.prefix_cache.stats
        return {"requests": stats.requests, "queries": stats.queried_tokens, "hits": stats.hit_tokens}

    def _outcome(self) -> dict[str, Any]:
        return {
            "free_order": self.pool.free_queue(),
            "ref_cnt": {str(block): ref for block, ref in enumerate(self.pool.ref_cnt) if ref},
            "cached": [block for block, one in enumerate(self.pool.block_hash) if one is not None],
            "usage": self.pool.usage,
            "events": self.messages.follow(self.all),
        }

    def _add(self, op: dict[str, Any]) -> dict[str, Any]:
        tokens, salt, name = list(op["tokens"]), op["cache_salt"] or "", Name(op["id"])
        ordinal = self.recorder.new_holder(name)
        request = Request(op["id"], ordinal, name, tokens, len(tokens), SamplingParams(), cache_salt=salt)
        self.all[ordinal] = request
        cache = self.manager.prefix_cache
        hits = cache.longest_hit(request)
        new_blocks = self.manager.allocate_slots(request, op["chunk"], hits)
        if new_blocks is not None:
            cache.count(request, len(hits))
            request.num_computed_tokens += op["chunk"]
            self.live[op["id"]] = request
        hit_tokens = len(hits) * self.pool.block_size
        return {"hit_blocks": hits, "hit_tokens": hit_tokens, "new_blocks": new_blocks}

    def _step(self, op: dict[str, Any]) -> dict[str, Any]:
        request = self._living(op)
        request.token_ids.extend(op["append"] or [])
        new_blocks = self.manager.allocate_slots(request, op["num_new_tokens"])
        if new_blocks is None:
            self.manager.free(self.live.pop(op["id"]), Cause.preempt)
        else:
            request.num_computed_tokens += op["num_new_tokens"]
        return {"new_blocks": new_blocks}

    def _free(self, op: dict[str, Any]) -> dict[str, Any]:
        request = self._living(op)
        del self.live[op["id"]]
        self.manager.free(request, Cause.finish)
        return {}

    def _reset_prefix_cache(self, op: dict[str, Any]) -> dict[str, Any]:
        return {"ok": self.manager.reset_prefix_cache()}

    def _living(self, op: dict[str, Any]) -> Request:
        if op["id"] not in self.live:
            raise BadInput(f"The recording goes on with {op['id']}, which it never added or has ended.")
        return self.live[op["id"]]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
