"""How fast a model decodes on this machine's CPU: 1, 4 and 16 sequences at once, and agents behind one long prefix,
with its blocks shared and with a copy of them for each agent.

Beside it, in turns in the same process: transformers' generate over the same weights with the same number of threads,
and, where llama_cpp is installed and --gguf names a file, llama.cpp. Times are of decode steps alone, without prompts;
a figure is the median over all steps, a ratio the median over the rounds.

The floor is the time in which this machine reads the weights once, as it must in every step: their bytes over the
bandwidth at which a sum runs through memory, measured in the same rounds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, Protocol

import torch
from kvxray_engine.dtypes import MODEL_DTYPES
from kvxray_engine.errors import UserError
from kvxray_engine.model_loading import OpenModel, open_model
from kvxray_engine.model_runner import ModelRunner
from kvxray_engine.models.linear import QUANTIZATIONS

from benchmarks.measuring.decode_batch import DecodeBatch

BATCHES = (1, 4, 16)
BLOCK_SIZE = 16
MIN_SWEEP_BYTES = 256 << 20
"""Read to measure the bandwidth: far more than any processor's cache."""


class Decode(Protocol):
    """Decodes so many steps from the same beginning; seconds of each."""

    tokens: list[list[int]]

    def run(self, steps: int) -> list[float]: ...


def main() -> int:
    options = parse_arguments()
    if options.threads is not None:
        torch.set_num_threads(options.threads)
    try:
        opened = open_model(options.model, options.dtype, quantization=options.quantization)
        result = measure(opened, options)
    except UserError as error:
        print(f"kvxray: {error}", file=sys.stderr)
        return error.exit_code
    print(json.dumps(result) if options.json else "\n".join(f"{name}: {value}" for name, value in result.items()))
    return 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="kvxray bench decode", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output")
    parser.add_argument("--model", default="smollm2", help="as for kvxray engine")
    parser.add_argument(
        "--dtype", default="float32", choices=sorted(set(MODEL_DTYPES.values())), help="of the weights and of the cache"
    )
    parser.add_argument("--quantization", choices=QUANTIZATIONS, help="of the weights of layers")
    parser.add_argument("--threads", type=int, help="of torch; else its own choice")
    parser.add_argument("--rounds", type=int, default=3, help="in each of which everything runs once")
    parser.add_argument("--steps", type=int, default=16, help="tokens of each sequence in a round")
    parser.add_argument("--prompt-tokens", type=int, default=128, help="of the sequences that share nothing")
    parser.add_argument("--agents", type=int, default=20)
    parser.add_argument("--prefix-tokens", type=int, default=2048, help="that all agents begin with")
    parser.add_argument("--own-tokens", type=int, default=64, help="that each agent adds")
    parser.add_argument("--gguf", help="file for llama.cpp: the same model, in any of its formats")
    parser.add_argument("--no-peers", action="store_true", help="leave transformers and llama.cpp out")
    options = parser.parse_args()
    if min(options.rounds, options.steps, options.prompt_tokens, options.own_tokens, options.agents) < 1:
        parser.error("rounds, steps, agents and tokens are at least 1")
    if options.threads is not None and options.threads < 1:
        parser.error("--threads is at least 1")
    if options.prefix_tokens % BLOCK_SIZE or options.prefix_tokens < 4 * BLOCK_SIZE:
        parser.error(f"--prefix-tokens is a multiple of {BLOCK_SIZE}, and at least {4 * BLOCK_SIZE}")
    if options.gguf is not None and not Path(options.gguf).is_file():
        parser.error(f"--gguf names no file: {options.gguf}")
    return options


def measure(opened: OpenModel, options: argparse.Namespace) -> dict[str, Any]:
    refuse_what_is_too_long(opened.model.config.max_model_len, options)
    agent, prefix = options.own_tokens + options.steps, blocks_for(options.prefix_tokens)
    needed = (options.agents + 1) * prefix + 2 * options.agents * blocks_for(agent)
    needed += sum(BATCHES) * blocks_for(options.prompt_tokens + options.steps)
    runner = opened.with_cache(1 + needed, BLOCK_SIZE, options.dtype)
    # In random order, as in a pool that has run for a while.
    blocks = Random(0).sample(range(1, 1 + needed), needed)
    variants: dict[str, Decode] = {**batches(runner, blocks, options), **agents(runner, blocks, options)}
    assert not blocks, "what was asked for is used"
    if not options.no_peers:
        variants |= peers(opened, options)
    told(f"{options.rounds} rounds of {options.steps} steps: {', '.join(variants)}")
    read_bytes = opened.model.bytes_read_per_step
    seconds, bandwidths = in_turns(variants, options, read_bytes)
    same = ("dtype", "quantization", "rounds", "steps", "prompt_tokens", "agents", "prefix_tokens", "own_tokens")
    return {
        **figures(seconds, options.agents, read_bytes, bandwidths),
        "agents_tokens_equal": variants["agents_shared"].tokens == variants["agents_unshared"].tokens,
        "transformers_tokens_equal": (
            variants["batch_1"].tokens == variants[peer].tokens
            if (peer := "transformers_batch_1") in variants
            else None
        ),
        "model": opened.model.config.name,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        **{name: getattr(options, name) for name in same},
    }


def refuse_what_is_too_long(max_model_len: int, options: argparse.Namespace) -> None:
    """UserError unless the model can be as long as the longest sequence gets."""
    begun = max(options.prompt_tokens, options.prefix_tokens + options.own_tokens)
    if begun + options.steps > max_model_len:
        raise UserError(
            f"The model reads and writes {max_model_len} tokens at most, and {begun + options.steps} are asked for: "
            "lower --prefix-tokens, --own-tokens, --prompt-tokens or --steps."
        )


def batches(runner: ModelRunner, blocks: list[int], options: argparse.Namespace) -> dict[str, Decode]:
    """Sequences that share nothing."""
    width = blocks_for(options.prompt_tokens + options.steps)
    return {
        f"batch_{size}": DecodeBatch(
            runner, prompts(size, options.prompt_tokens, runner.vocab_size), [take(blocks, width) for _ in range(size)]
        )
        for size in BATCHES
    }


def agents(runner: ModelRunner, blocks: list[int], options: argparse.Namespace) -> dict[str, Decode]:
    """Sequences that begin alike: in the same blocks, and each in blocks of its own with the same in them."""
    told(f"computing a prefix of {options.prefix_tokens} tokens")
    (prefix,) = prompts(1, options.prefix_tokens, runner.vocab_size)
    own = prompts(options.agents, options.own_tokens, runner.vocab_size, seed=1)
    shared = take(blocks, blocks_for(options.prefix_tokens))
    DecodeBatch(runner, [prefix], [shared])
    copies = [take(blocks, len(shared)) for _ in own]
    for copy in copies:
        runner.backend.copy_blocks(list(zip(shared, copy, strict=True)))
    texts, done = [prefix + part for part in own], [len(prefix)] * len(own)
    width = blocks_for(options.own_tokens + options.steps)
    return {
        name: DecodeBatch(runner, texts, [table + take(blocks, width) for table in tables], done)
        for name, tables in (("agents_shared", [shared] * len(own)), ("agents_unshared", copies))
    }


def peers(opened: OpenModel, options: argparse.Namespace) -> dict[str, Decode]:
    """Those that are installed, on the prompts of `batches`."""
    found: dict[str, Decode] = {}
    vocab_size = opened.model.config.vocab_size
    if find_spec("transformers") and options.quantization is None:
        from benchmarks.measuring.transformers_peer import TwinDecode, transformers_twin

        twin = transformers_twin(opened.model)
        for size in BATCHES:
            found[f"transformers_batch_{size}"] = TwinDecode(twin, prompts(size, options.prompt_tokens, vocab_size))
    if find_spec("llama_cpp") and options.gguf:
        from benchmarks.measuring.llama_cpp_peer import LlamaCppDecode

        (prompt,) = prompts(1, options.prompt_tokens, vocab_size)
        found["llama_cpp_batch_1"] = LlamaCppDecode(options.gguf, prompt, options.steps, torch.get_num_threads())
    return found


def in_turns(
    variants: dict[str, Decode], options: argparse.Namespace, read_bytes: int
) -> tuple[dict[str, list[list[float]]], list[float]]:
    """Seconds of each step, round by round, and the bandwidth of each round in bytes a second."""
    swept = torch.ones(max(MIN_SWEEP_BYTES, read_bytes) // 4)
    names = list(variants)
    seconds: dict[str, list[list[float]]] = {name: [] for name in names}
    bandwidths = []
    for variant in variants.values():
        variant.run(1)
    for number in range(options.rounds):
        bandwidths.append(max(bandwidth(swept) for _ in range(3)))
        shift = number % len(names)
        for name in names[shift:] + names[:shift]:
            seconds[name].append(variants[name].run(options.steps))
        told(f"round {number + 1}")
    return seconds, bandwidths


def bandwidth(swept: torch.Tensor) -> float:
    begin = time.perf_counter()
    swept.sum()
    return swept.nbytes / (time.perf_counter() - begin)


def figures(
    seconds: dict[str, list[list[float]]], num_agents: int, read_bytes: int, bandwidths: list[float]
) -> dict[str, float | None]:
    """All that is computed from times; None where a peer is missing."""
    sizes = {name: int(name.rpartition("_")[2]) if "batch" in name else num_agents for name in seconds}
    rates = {name: [sizes[name] / median(steps) for steps in rounds] for name, rounds in seconds.items()}

    def ratio(name: str, other: str) -> float | None:
        """Median over the rounds."""
        if other not in rates:
            return None
        return rounded(median(mine / theirs for mine, theirs in zip(rates[name], rates[other], strict=True)))

    reached = median(
        read_bytes / speed / median(steps) for speed, steps in zip(bandwidths, seconds["batch_1"], strict=True)
    )
    all_steps = {name: [step for steps in rounds for step in steps] for name, rounds in seconds.items()}
    return {
        **{f"tokens_per_s_{name}": rounded(sizes[name] / median(steps)) for name, steps in all_steps.items()},
        "ratio_batch_16_over_1": ratio("batch_16", "batch_1"),
        "ratio_agents_shared_unshared": ratio("agents_shared", "agents_unshared"),
        **{
            f"ratio_transformers_batch_{size}": ratio(f"batch_{size}", f"transformers_batch_{size}") for size in BATCHES
        },
        "ratio_llama_cpp_batch_1": ratio("batch_1", "llama_cpp_batch_1"),
        "share_of_bandwidth_floor": rounded(reached),
        "read_bandwidth_gb_s": rounded(median(bandwidths) / 1e9),
        "weight_bytes": read_bytes,
    }


def prompts(number: int, num_tokens: int, vocab_size: int, seed: int = 0) -> list[list[int]]:
    """The first of many are those of few."""
    random = Random(seed)
    return [[random.randrange(vocab_size) for _ in range(num_tokens)] for _ in range(number)]


def take(blocks: list[int], number: int) -> list[int]:
    return [blocks.pop() for _ in range(number)]


def blocks_for(num_tokens: int) -> int:
    return -(-num_tokens // BLOCK_SIZE)


def rounded(number: float) -> float:
    return float(f"{number:.4g}")


def told(sentence: str) -> None:
    print(sentence, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
