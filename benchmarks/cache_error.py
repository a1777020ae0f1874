"""What a quantised KV cache costs in accuracy and gains in blocks, format by format, against a cache in float32.

Logit error, greedy agreement and perplexity are those of a text that the model reads (2,000 tokens of
benchmarks/data/harbour.txt): every chunk of it is written to the cache first and attended over from there, so that all
that is attended over has been stored in the format. `greedy_equal_tokens`: how many tokens of a greedy answer are those
of the float32 cache before the first that differs, on average over a few prompts. The model itself computes in float32.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from statistics import mean
from typing import Any

from kvxray_engine.errors import UserError

TEXT = Path(__file__).parent / "data" / "harbour.txt"
EXACT = "float32"
FORMATS = (EXACT, "float16", "bfloat16", "fp8_e4m3", "int8", "int4")
PROMPTS = (
    "Why is the sky blue?",
    "List five things to check before a long journey by bicycle.",
    "Explain how a lock on a canal lifts a boat.",
    "Write a short letter to a neighbour about a fallen tree.",
    "What does a baker do between midnight and six in the morning?",
    "Describe how to plant an apple tree, step by step.",
    "Tell a story about a lighthouse keeper and a lost dog.",
    "What is the difference between a map and a plan?",
)


def main() -> int:
    options = parse_arguments()
    try:
        result = measure(options)
    except UserError as error:
        print(f"kvxray: {error}", file=sys.stderr)
        return error.exit_code
    print(json.dumps(result) if options.json else "\n".join(lines(result)))
    return 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="kvxray bench cache_error", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output")
    parser.add_argument("--model", default="smollm2", help="as for kvxray engine")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--tokens", type=int, default=2000, help="of the text")
    parser.add_argument("--prompts", type=int, default=len(PROMPTS), help=f"prompts to answer, at most {len(PROMPTS)}")
    parser.add_argument("--max-tokens", type=int, default=64, help="of every answer")
    parser.add_argument("--block-size", type=int, default=16, help="tokens of a block")
    parser.add_argument("--chunk", type=int, default=250, help="tokens of the text that are computed at once")
    options = parser.parse_args()
    if min(options.tokens - 1, options.max_tokens, options.block_size, options.chunk) < 1:
        parser.error("--tokens is at least 2, and --max-tokens, --block-size and --chunk at least 1")
    if not 1 <= options.prompts <= len(PROMPTS):
        parser.error(f"--prompts goes from 1 to {len(PROMPTS)}")
    return options


def measure(options: argparse.Namespace) -> dict[str, Any]:
    import torch
    from kvxray_engine.device import choose_device
    from kvxray_engine.model_loading import open_model
    from kvxray_engine.model_store import fetch_smollm2

    if options.model == "smollm2":
        fetch_smollm2()
    opened = open_model(options.model, device=choose_device(options.device))
    text = opened.tokenizer.encode(TEXT.read_text())[: options.tokens]
    refuse_what_is_too_long(opened, len(text), options)
    errors = text_errors(opened, text, options)
    answers = {name: answers_of(opened, name, options) for name in FORMATS}
    sizes = {name: opened.bytes_per_block(options.block_size, name) for name in FORMATS}
    return {
        "model": opened.model.config.name,
        "head_dim": opened.model.config.head_dim,
        "device": opened.device.type,
        "torch": torch.__version__,
        "kvxray": metadata.version("kvxray"),
        "tokens": len(text),
        "prompts": options.prompts,
        "max_tokens": options.max_tokens,
        "block_size": options.block_size,
        "formats": {
            name: {
                "bytes_per_block": sizes[name],
                "ratio_bytes_fp16": sizes[name] / sizes["float16"],
                "ratio_blocks_fp16": sizes["float16"] / sizes[name],
                **errors[name],
                "greedy_equal_tokens": mean(map(equal_tokens, answers[name], answers[EXACT])),
                "greedy_equal_answers": sum(map(list.__eq__, answers[name], answers[EXACT])),
            }
            for name in FORMATS
        },
    }


def refuse_what_is_too_long(opened: Any, text_tokens: int, options: argparse.Namespace) -> None:
    """UserError unless the model can be as long as the text, and as the longest prompt with its answer."""
    longest = opened.model.config.max_model_len
    answered = max(map(len, prompts_of(opened, options))) + options.max_tokens
    for tokens, option in ((text_tokens, "--tokens"), (answered, "--max-tokens")):
        if tokens > longest:
            raise UserError(
                f"The model reads and writes {longest} tokens at most, and {tokens} are asked for: lower {option}."
            )


def prompts_of(opened: Any, options: argparse.Namespace) -> list[list[int]]:
    return [
        opened.tokenizer.apply_chat_template([{"role": "user", "content": text}]) for text in PROMPTS[: options.prompts]
    ]


def text_errors(opened: Any, text: list[int], options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Each format walks the text beside float32, chunk by chunk: the scores of all of it would take gigabytes."""
    from benchmarks.measuring.forced_text import Comparison, scores

    blocks = -(-len(text) // options.block_size) + 1
    walks = {name: scores(opened.with_cache(blocks, options.block_size, name), text, options.chunk) for name in FORMATS}
    compared = {name: Comparison() for name in FORMATS}
    for start in range(0, len(text), options.chunk):
        following = text[start + 1 : start + options.chunk + 1]
        exact = next(walks[EXACT])
        for name in FORMATS:
            compared[name].add(exact, exact if name == EXACT else next(walks[name]), following)
        print(f"text: {min(start + options.chunk, len(text))} of {len(text)} tokens", file=sys.stderr)
    return {name: comparison.figures() for name, comparison in compared.items()}


def answers_of(opened: Any, kv_cache_dtype: str, options: argparse.Namespace) -> list[list[int]]:
    """Greedy answers to the prompts, computed together."""
    from kvxray_engine.engine import EngineConfig, LLMEngine
    from kvxray_engine.request import NewRequest
    from kvxray_engine.step_batch import SamplingParams

    print(f"answers: {kv_cache_dtype}", file=sys.stderr)
    prompts = prompts_of(opened, options)
    sampling = SamplingParams(max_tokens=options.max_tokens, ignore_eos=True)
    blocks = 1 + sum(-(-(len(prompt) + options.max_tokens) // options.block_size) for prompt in prompts)
    runner = opened.with_cache(blocks, options.block_size, kv_cache_dtype)
    engine = LLMEngine(runner, EngineConfig(max_num_batched_tokens=512, enable_prefix_caching=False))
    for number, prompt in enumerate(prompts):
        engine.add_request(NewRequest(str(number), prompt, sampling))
    told: list[list[int]] = [[] for _ in prompts]
    while engine.has_work:
        for output in engine.step():
            told[int(output.request_id)] += output.new_token_ids
    return told


def equal_tokens(told: list[int], exact: list[int]) -> int:
    """Before the first that differs."""
    return next((at for at, (one, other) in enumerate(zip(told, exact, strict=True)) if one != other), len(exact))


def lines(result: dict[str, Any]) -> Iterator[str]:
    """A table as it stands in docs/kernels.md."""
    yield (
        f"{result['model']}, head_dim {result['head_dim']}, {result['tokens']} tokens of text, {result['prompts']} "
        f"answers of {result['max_tokens']} tokens; torch {result['torch']} on {result['device']}"
    )
    yield ""
    yield (
        "| cache | bytes a block | of fp16 | blocks for the same bytes | logit error, max | mean | relative rms "
        "| same choice | same first tokens | perplexity |"
    )
    yield "| --- " * 10 + "|"
    for name, one in result["formats"].items():
        cells = (
            f"`{name}`",
            f"{one['bytes_per_block']:,}",
            f"{one['ratio_bytes_fp16']:.3f}",
            f"{one['ratio_blocks_fp16']:.2f}x",
            f"{one['logit_error_max']:.2g}",
            f"{one['logit_error_mean']:.2g}",
            f"{one['logit_error_relative_rms']:.2%}",
            f"{one['greedy_agreement_ratio']:.2%}",
            f"{one['greedy_equal_tokens']:.1f} of {result['max_tokens']}",
            f"{one['perplexity']:.3f}",
        )
        yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
