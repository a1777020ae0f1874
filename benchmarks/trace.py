"""What prefix caching can hit on a trace, and how fast scheduler and pool replay it.

First the trace alone: the share of its prompt tokens that an endless cache would hit, and caches of so many blocks (of
the trace's own 512 tokens) that forget the least recently used. Then the whole engine but for the model: requests
arrive when they did, run side by side and evict each other; its cache keeps answers too and shares memory with what
runs, so it hits less than a cache that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from statistics import quantiles
from typing import Any

from kvxray_engine.cache_simulation import hit_ratio
from kvxray_engine.engine import EngineConfig
from kvxray_engine.errors import UserError
from kvxray_engine.trace_runner import TraceRunner
from kvxray_engine.traces import TraceRequest, read_trace

FIRST_600 = Path(__file__).parents[1] / "tests" / "data" / "mooncake_conversation_first600.jsonl.gz"


def main() -> int:
    parser = argparse.ArgumentParser(prog="kvxray bench trace", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output")
    parser.add_argument("--trace", type=Path, default=FIRST_600, help="a Mooncake, Azure or own trace")
    parser.add_argument("--requests", type=int, help="only the first so many")
    parser.add_argument("--block-size", type=int, default=512, help="tokens of a block in the replay")
    parser.add_argument("--num-kv-blocks", type=int, default=10001, help="of the replay, the null block included")
    parser.add_argument("--capacities", type=int, nargs="*", default=[1000, 5000, 10000, 30000, 50000])
    options = parser.parse_args()
    try:
        trace = read_trace(options.trace, options.requests)
        result = simulate(trace, options.capacities) | replay(trace, options)
    except UserError as error:
        print(f"kvxray: {error}", file=sys.stderr)
        return error.exit_code
    result = {"trace": options.trace.name} | result
    print(json.dumps(result) if options.json else "\n".join(f"{name}: {value}" for name, value in result.items()))
    return 0


def simulate(trace: list[TraceRequest], capacities: list[int]) -> dict[str, Any]:
    begun = time.perf_counter()
    result: dict[str, Any] = {
        "requests": len(trace),
        "trace_duration_s": trace[-1].arrival_ns / 1e9 if trace else 0.0,
        "infinite_hit_ratio": hit_ratio(trace),
        "lru_hit_ratio": {str(blocks): hit_ratio(trace, blocks) for blocks in capacities},
    }
    result["simulations_wall_s"] = time.perf_counter() - begun
    print(f"endless: {result['infinite_hit_ratio']:.1%}, LRU: {result['lru_hit_ratio']}", file=sys.stderr)
    return result


def replay(trace: list[TraceRequest], options: argparse.Namespace) -> dict[str, Any]:
    config = EngineConfig(max_num_seqs=1024, max_num_batched_tokens=8192)
    runner = TraceRunner(trace, options.num_kv_blocks, options.block_size, config)
    begun = time.perf_counter()
    figures = runner.run()
    wall_s = time.perf_counter() - begun
    ttft = quantiles(figures.ttft_s, n=100) if len(figures.ttft_s) > 1 else None
    return {
        "replay_wall_s": wall_s,
        "replay_virtual_s": figures.duration_s,
        "replay_times_faster": figures.duration_s / wall_s,
        "replay_hit_ratio": figures.hit_ratio,
        "replay_requests": figures.requests,
        "replay_refused": figures.refused,
        "replay_steps": figures.steps,
        "replay_output_tokens": figures.output_tokens,
        "replay_max_running": figures.max_running,
        "replay_preemptions": figures.preemptions,
        "replay_waste_ratio": figures.waste_ratio,
        "replay_virtual_ttft_p50_s": ttft and ttft[49],
        "replay_virtual_ttft_p99_s": ttft and ttft[98],
        "block_size": options.block_size,
        "num_kv_blocks": options.num_kv_blocks,
    }


if __name__ == "__main__":
    sys.exit(main())
