"""How fast the block pool gives out, caches, takes back and evicts blocks, with its story told and without.

60 prompts of 64 full blocks through a pool of 1,024: get 64, cache 64, free 64, with the hashes made beforehand; the
same one block at a time. With events on the recorder takes every operation and hands the columns over once a prompt (64
blocks), as the engine does once a step. With --peer-python, the interpreter of an environment that holds vLLM, both
pools run there, in one process and in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

from kvxray_engine.block_pool import BlockPool
from kvxray_engine.stream.handover import Handover
from kvxray_engine.stream.recorder import NullRecorder, Recorder
from kvxray_engine.stream.schema import Cause

from benchmarks.measuring.interleave import Rates, Variant

PROMPTS = 60
BLOCKS = 64  # of a prompt
POOL = 1025
BLOCK_SIZE = 16
FINISHED = Cause.finish
ROOT = Path(__file__).parents[1]


def main() -> int:
    parser = argparse.ArgumentParser(prog="kvxray bench pool", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output")
    parser.add_argument("--rounds", type=int, default=31, help="medians are taken over so many")
    parser.add_argument("--peer-python", help="interpreter of an environment that holds vLLM")
    parser.add_argument("--with-vllm", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer_python:
        return in_peer(options)
    result = measure(options.rounds, options.with_vllm)
    print(json.dumps(result) if options.json else "\n".join(f"{name}: {value}" for name, value in result.items()))
    return 0


def in_peer(options: argparse.Namespace) -> int:
    """The same measurement in the peer's interpreter: it finds our engine by path, and needs nothing installed."""
    command = [options.peer_python, "-m", "benchmarks.pool", "--with-vllm", "--rounds", str(options.rounds)]
    path = os.pathsep.join([str(ROOT), str(ROOT / "engine")])
    environment = os.environ | {"PYTHONPATH": path, "VLLM_LOGGING_LEVEL": "ERROR", "PYTHONHASHSEED": "0"}
    return subprocess.call(command + ["--json"] * options.json, env=environment, cwd=ROOT)


def measure(rounds: int, with_vllm: bool) -> dict[str, Any]:
    variants = {"off": ours(NullRecorder()), "on": ours(Recorder(handover=Handover()))}
    singles = {"off": ours_single(NullRecorder()), "on": ours_single(Recorder(handover=Handover()))}
    version = None
    if with_vllm:
        print("importing vLLM takes half a minute", file=sys.stderr)
        from benchmarks.measuring import vllm_pool

        version = vllm_pool.version()
        variants |= {f"vllm_{name}": vllm_pool.whole(name == "on") for name in ("off", "on")}
        singles |= {f"vllm_{name}": vllm_pool.single(name == "on") for name in ("off", "on")}
    print("whole prompts", file=sys.stderr)
    whole = Rates(variants, rounds)
    print("one block at a time", file=sys.stderr)
    single = Rates(singles, rounds)
    return {
        "blocks_per_s_events_off": whole.median("off"),
        "blocks_per_s_events_on": whole.median("on"),
        "ratio_events_on_off": whole.ratio("on", "off"),
        "ratio_vllm_events_on": whole.ratio("on", "vllm_on") if with_vllm else None,
        "ratio_vllm_events_off": whole.ratio("off", "vllm_off") if with_vllm else None,
        "single_block_ratio_events_on_off": single.ratio("on", "off"),
        "single_block_ratio_vllm_events_on": single.ratio("on", "vllm_on") if with_vllm else None,
        "single_block_ratio_vllm_events_off": single.ratio("off", "vllm_off") if with_vllm else None,
        "single_block_blocks_per_s_events_off": single.median("off"),
        "single_block_blocks_per_s_events_on": single.median("on"),
        "vllm_blocks_per_s_events_off": whole.median("vllm_off") if with_vllm else None,
        "vllm_blocks_per_s_events_on": whole.median("vllm_on") if with_vllm else None,
        "vllm_version": version,
        "python": sys.version.split()[0],
        "rounds": rounds,
    }


def ours(recorder: NullRecorder) -> Variant:
    pool = BlockPool(POOL, BLOCK_SIZE, recorder)
    prompts = [[digest(prompt, block) for block in range(BLOCKS)] for prompt in range(PROMPTS)]

    def run() -> int:
        for req, hashes in enumerate(prompts):
            blocks = pool.allocate(BLOCKS, req)
            pool.cache(blocks, hashes, req)
            pool.free(blocks[::-1], req, FINISHED)
            recorder.flush()
        drain(recorder)
        return PROMPTS * BLOCKS

    return run


def ours_single(recorder: NullRecorder) -> Variant:
    pool = BlockPool(POOL, BLOCK_SIZE, recorder)
    prompts = [[[digest(prompt, block)] for block in range(BLOCKS)] for prompt in range(PROMPTS)]

    def run() -> int:
        for req, hashes in enumerate(prompts):
            for one in hashes:
                blocks = pool.allocate(1, req)
                pool.cache(blocks, one, req)
                pool.free(blocks, req, FINISHED)
            recorder.flush()
        drain(recorder)
        return PROMPTS * BLOCKS

    return run


def drain(recorder: NullRecorder) -> None:
    """What the publisher's thread would do first; keeps the queue from filling up."""
    if isinstance(recorder, Recorder):
        recorder.handover.take()


def digest(prompt: int, block: int) -> bytes:
    return sha256(b"%d %d" % (prompt, block)).digest()


if __name__ == "__main__":
    sys.exit(main())
