"""Twenty agents on one shared prompt of 4,000 tokens, with prefix caching and without.

How many run at once in one pool is a matter of memory, not of speed: the scheduler and the pool as they are, a null
model and a virtual clock; all agents come at the same moment. The time to the first token is measured with a real model
on this machine: agents come one after the other to an engine that has served another before them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from statistics import median
from typing import Any

from kvxray_engine.engine import EngineConfig, LLMEngine
from kvxray_engine.errors import UserError
from kvxray_engine.request import NewRequest
from kvxray_engine.step_batch import SamplingParams, StepModel
from kvxray_engine.trace_runner import TraceRunner
from kvxray_engine.traces import TraceRequest

BLOCK_SIZE = 16


def main() -> int:
    parser = argparse.ArgumentParser(prog="kvxray bench agents", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output")
    parser.add_argument("--agents", type=int, default=20)
    parser.add_argument("--shared-tokens", type=int, default=4000, help="of the prompt that all begin with")
    parser.add_argument("--own-tokens", type=int, default=100, help="that each agent adds")
    parser.add_argument("--answer-tokens", type=int, default=200)
    parser.add_argument("--num-kv-blocks", type=int, default=1537, help="of 16 tokens, the null block included")
    parser.add_argument("--model", default="smollm2", help="whose time to the first token is measured, or none")
    parser.add_argument("--timed-agents", type=int, default=3, help="whose median is reported")
    options = parser.parse_args()
    try:
        result = concurrency(options) | first_tokens(options)
    except UserError as error:
        print(f"kvxray: {error}", file=sys.stderr)
        return error.exit_code
    print(json.dumps(result) if options.json else "\n".join(f"{name}: {value}" for name, value in result.items()))
    return 0


def concurrency(options: argparse.Namespace) -> dict[str, Any]:
    """Virtual: who runs at once, and when they had their first tokens."""
    trace = [
        TraceRequest(0, ((0, options.shared_tokens), (agent, options.own_tokens)), options.answer_tokens)
        for agent in range(1, options.agents + 1)
    ]
    found: dict[bool, Any] = {}
    for share in (True, False):
        config = EngineConfig(max_num_seqs=1024, max_num_batched_tokens=8192, enable_prefix_caching=share)
        found[share] = TraceRunner(trace, options.num_kv_blocks, BLOCK_SIZE, config).run()
        print(f"sharing {share}: {found[share].max_running} at once", file=sys.stderr)
    return {
        "agents": options.agents,
        "shared_tokens": options.shared_tokens,
        "own_tokens": options.own_tokens,
        "answer_tokens": options.answer_tokens,
        "num_kv_blocks": options.num_kv_blocks,
        "max_concurrent_shared": found[True].max_running,
        "max_concurrent_unshared": found[False].max_running,
        "ratio_concurrent": found[True].max_running / found[False].max_running,
        "virtual_duration_shared_s": found[True].duration_s,
        "virtual_duration_unshared_s": found[False].duration_s,
        "virtual_ttft_p50_shared_s": median(found[True].ttft_s),
        "virtual_ttft_p50_unshared_s": median(found[False].ttft_s),
        "preemptions_shared": found[True].preemptions,
        "preemptions_unshared": found[False].preemptions,
    }


def first_tokens(options: argparse.Namespace) -> dict[str, Any]:
    """Real: a model that computes, on this machine."""
    if options.model == "none":
        return {"ttft_model": None, "ttft_shared_s": None, "ttft_unshared_s": None}
    from kvxray_engine.model_loading import load_model

    blocks = 2 * -(-(options.shared_tokens + options.own_tokens + 1) // BLOCK_SIZE) + 1
    model, _ = load_model(options.model, blocks, BLOCK_SIZE)
    times: dict[bool, float] = {}
    for share in (True, False):
        engine = LLMEngine(model, EngineConfig(max_num_batched_tokens=512, enable_prefix_caching=share))
        first_token(engine, model, 0, options)
        seconds = [first_token(engine, model, agent, options) for agent in range(1, options.timed_agents + 1)]
        times[share] = median(seconds)
        print(f"sharing {share}: first tokens after {[round(one, 2) for one in seconds]} s", file=sys.stderr)
    return {
        "ttft_model": options.model,
        "ttft_shared_s": times[True],
        "ttft_unshared_s": times[False],
        "ratio_ttft": times[False] / times[True],
    }


def first_token(engine: LLMEngine, model: StepModel, agent: int, options: argparse.Namespace) -> float:
    """Seconds from the request of an agent that comes alone to its first and only token."""
    usable = model.vocab_size - 1000  # tokens beyond the special ones at the beginning
    shared = [1000 + 7919 * position % usable for position in range(options.shared_tokens)]
    own = [1000 + (104_729 * (agent + 1) + 31 * position) % usable for position in range(options.own_tokens)]
    begun = time.perf_counter()
    engine.add_request(NewRequest(f"agent-{agent}", shared + own, SamplingParams(max_tokens=1, ignore_eos=True)))
    while engine.has_work:
        engine.step()
    return time.perf_counter() - begun


if __name__ == "__main__":
    sys.exit(main())
