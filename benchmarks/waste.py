"""What reservation wastes and paging does not, on real traffic: the same requests through the same scheduler, with
memory given out as one contiguous range of the longest sequence, as a power of two, and in blocks.

Waste = reserved slots never written / reserved slots, over all reservations. A null model on a virtual clock: what is
measured is memory, not speed. Prefix caching is off, but in the last run, so that all four hold the same tokens.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import median
from typing import Any

from kvxray_engine.baselines import Allocation
from kvxray_engine.engine import EngineConfig
from kvxray_engine.errors import UserError
from kvxray_engine.trace_runner import TraceRunner
from kvxray_engine.traces import TraceRequest, read_trace

FIRST_600 = Path(__file__).parents[1] / "tests" / "data" / "mooncake_conversation_first600.jsonl.gz"
WAYS = {
    "contiguous": (Allocation.contiguous, False),
    "buddy": (Allocation.buddy, False),
    "paged": (Allocation.paged, False),
    "paged_shared": (Allocation.paged, True),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="kvxray bench waste", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output")
    parser.add_argument("--trace", type=Path, default=FIRST_600, help="a Mooncake, Azure or own trace")
    parser.add_argument("--requests", type=int, help="only the first so many")
    parser.add_argument("--block-size", type=int, default=16, help="tokens of a block")
    parser.add_argument("--num-kv-blocks", type=int, default=65537, help="of the pool, the null block included")
    options = parser.parse_args()
    try:
        result = measure(options)
    except UserError as error:
        print(f"kvxray: {error}", file=sys.stderr)
        return error.exit_code
    print(json.dumps(result) if options.json else "\n".join(f"{name}: {value}" for name, value in result.items()))
    return 0


def measure(options: argparse.Namespace) -> dict[str, Any]:
    trace = read_trace(options.trace, options.requests)
    result: dict[str, Any] = {
        "trace": options.trace.name,
        "requests": len(trace),
        "prompt_tokens": sum(request.prompt_tokens for request in trace),
        "output_tokens": sum(request.output_tokens for request in trace),
        "max_model_len": max((request.prompt_tokens + request.output_tokens for request in trace), default=0),
        "block_size": options.block_size,
        "num_kv_blocks": options.num_kv_blocks,
    }
    for way, (allocation, share) in WAYS.items():
        result |= {f"{way}_{name}": value for name, value in replay(trace, allocation, share, options).items()}
        waste = result[f"{way}_waste_ratio"]
        print(f"{way}: waste {waste:.2%}, {result[f'{way}_max_concurrent']} at once", file=sys.stderr)
    return result


def replay(
    trace: list[TraceRequest], allocation: Allocation, share: bool, options: argparse.Namespace
) -> dict[str, Any]:
    config = EngineConfig(
        max_num_seqs=1024, max_num_batched_tokens=8192, enable_prefix_caching=share, allocation=allocation
    )
    figures = TraceRunner(trace, options.num_kv_blocks, options.block_size, config).run()
    return {
        "waste_ratio": figures.waste_ratio,
        "max_concurrent": figures.max_running,
        "virtual_duration_s": figures.duration_s,
        "virtual_ttft_p50_s": median(figures.ttft_s) if figures.ttft_s else None,
        "preemptions": figures.preemptions,
        "refused": figures.refused,
    }


if __name__ == "__main__":
    sys.exit(main())
