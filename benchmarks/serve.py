"""How fast `kvxray engine` answers over HTTP: time to the first token, time a token, throughput, and how much of the
prompts came out of the prefix cache; with and without prefix caching.

Starts the server itself, on loopback, once for each variant. Requests are streamed chat completions that share a system
prompt and each ask something of their own, and arrive at random (Poisson) at the rate asked for. Times are the
client's: from sending a request to its first and its last piece of text. The client runs on the same machine, so it
takes its share of the processor.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from statistics import mean
from typing import Any

import httpx2
from kvxray_engine.agent_texts import SHORT_SYSTEM_PROMPT, SYSTEM_PROMPT, TASKS

MAX_PROMPTS = 10_000
START_S = 120
REQUEST_S = 600
BYTE_MODEL = "tiny"  # a token a byte: it gets the short system prompt


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent: conversations, when each begins (seconds from the start), and how many may be open at once."""

    conversations: list[list[dict[str, str]]]
    starts: list[float]
    max_concurrency: int
    max_tokens: int


@dataclass(slots=True)
class Answered:
    """What the client saw of one request; times in seconds of the client's clock."""

    sent: float
    first: float = math.nan
    last: float = math.nan
    prompt_tokens: int = 0
    output_tokens: int = 0
    failed: str = ""


def main() -> int:
    options = parse_arguments()
    load = make_load(options)
    cached = measure(options, load, prefix_caching=True)
    uncached = measure(options, load, prefix_caching=False)
    result = {
        "model": options.model,
        "num_prompts": options.num_prompts,
        "request_rate": options.request_rate if math.isfinite(options.request_rate) else "inf",
        "max_tokens": options.max_tokens,
        "seed": options.seed,
        **cached,
        "without_prefix_caching": uncached,
        "ratio_ttft_p50_cached_uncached": ratio(cached["ttft_p50_s"], uncached["ttft_p50_s"]),
        "ratio_tokens_per_s_cached_uncached": ratio(cached["tokens_per_s"], uncached["tokens_per_s"]),
    }
    print(json.dumps(result) if options.json else "\n".join(lines(result)))
    return 1 if cached["failed"] or uncached["failed"] else 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="kvxray bench serve", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output")
    parser.add_argument("--model", default="smollm2", help="as for kvxray engine")
    parser.add_argument("--num-prompts", type=int, default=32, help="requests in all")
    parser.add_argument(
        "--request-rate", type=float, default=1.0, help="requests a second on average; inf: all at once"
    )
    parser.add_argument("--max-concurrency", type=int, default=256, help="requests open at once, at most")
    parser.add_argument("--max-tokens", type=int, default=32, help="tokens of every answer")
    parser.add_argument("--num-kv-blocks", type=int, help="size of the cache; else the engine's own choice")
    parser.add_argument("--seed", type=int, default=0, help="decides what is asked and when")
    options = parser.parse_args()
    if not 1 <= options.num_prompts <= MAX_PROMPTS:
        parser.error(f"--num-prompts goes from 1 to {MAX_PROMPTS}")
    if not options.request_rate > 0:
        parser.error("--request-rate must be above 0")
    if options.max_concurrency < 1 or options.max_tokens < 1:
        parser.error("--max-concurrency and --max-tokens must be at least 1")
    return options


def make_load(options: argparse.Namespace) -> Load:
    """The same for the same seed."""
    random = Random(options.seed)
    short = options.model == BYTE_MODEL
    system = SHORT_SYSTEM_PROMPT if short else SYSTEM_PROMPT
    conversations = []
    starts = [0.0]
    for _ in range(options.num_prompts):
        question = random.choice(TASKS).turn(0, random, 2 if short else 6)
        conversations.append([{"role": "system", "content": system}, {"role": "user", "content": question}])
        starts.append(
            starts[-1] + (random.expovariate(options.request_rate) if math.isfinite(options.request_rate) else 0)
        )
    return Load(conversations, starts[:-1], options.max_concurrency, options.max_tokens)


def measure(options: argparse.Namespace, load: Load, prefix_caching: bool) -> dict[str, Any]:
    """One variant, on a server of its own."""
    name = "with" if prefix_caching else "without"
    print(f"{name} prefix caching: starting {options.model}", file=sys.stderr)
    with server(options, prefix_caching) as url:
        answered, seconds, hits, queries = asyncio.run(run_load(url, load))
    result = summary(answered, seconds, hits / queries if queries else None)
    print(f"{name} prefix caching: {result['completed']} answers in {seconds:.1f} s", file=sys.stderr)
    for sentence in sorted({one.failed for one in answered if one.failed}):
        print(f"{name} prefix caching: failed: {sentence}", file=sys.stderr)
    return result


@contextmanager
def server(options: argparse.Namespace, prefix_caching: bool) -> Iterator[str]:
    """A server on free ports of loopback, from ready to ended; its URL."""
    command = [
        sys.executable, "-m", "kvxray_backend.cli", "engine", "--model", options.model,
        "--port", "0", "--events-port", "0", "--replay-port", "0",
        "--enable-prefix-caching" if prefix_caching else "--no-enable-prefix-caching",
    ]  # fmt: skip
    if options.num_kv_blocks:
        command += ["--num-kv-blocks", str(options.num_kv_blocks)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise SystemExit(process.wait(START_S))  # it has said why
        yield json.loads(line)["api"]
    finally:
        process.terminate()
        process.wait(START_S)


async def run_load(url: str, load: Load) -> tuple[list[Answered], float, float, float]:
    """Answers, seconds from the first request to the last answer, prefix tokens hit and looked up."""
    limits = httpx2.Limits(max_connections=load.max_concurrency)
    async with httpx2.AsyncClient(base_url=url, timeout=REQUEST_S, limits=limits, trust_env=False) as client:
        # Something unlike all that is measured, so that no first use of anything is timed.
        await ask(client, [{"role": "user", "content": "Hello?"}], 8)
        before = await prefix_counts(client)
        gate = asyncio.Semaphore(load.max_concurrency)
        begun = time.perf_counter()

        async def one(start: float, conversation: list[dict[str, str]]) -> Answered:
            await asyncio.sleep(max(0.0, begun + start - time.perf_counter()))
            async with gate:
                return await ask(client, conversation, load.max_tokens)

        answered = await asyncio.gather(*map(one, load.starts, load.conversations))
        seconds = time.perf_counter() - begun
        after = await prefix_counts(client)
    return answered, seconds, after[0] - before[0], after[1] - before[1]


async def ask(client: httpx2.AsyncClient, conversation: list[dict[str, str]], max_tokens: int) -> Answered:
    body = {
        "messages": conversation, "max_tokens": max_tokens, "temperature": 0, "ignore_eos": True, "stream": True,
        "stream_options": {"include_usage": True},
    }  # fmt: skip
    answered = Answered(time.perf_counter())
    try:
        async with client.stream("POST", "/v1/chat/completions", json=body) as response:
            if response.status_code != 200:
                answered.failed = (await response.aread()).decode()
                return answered
            async for line in response.aiter_lines():
                if line.startswith("data: {"):
                    take(answered, json.loads(line.removeprefix("data: ")))
    except httpx2.HTTPError as error:
        answered.failed = f"{type(error).__name__}: {error}"
    return answered


def take(answered: Answered, chunk: dict[str, Any]) -> None:
    if "error" in chunk:
        answered.failed = chunk["error"]["message"]
    elif chunk["choices"] and (chunk["choices"][0]["delta"].get("content") or chunk["choices"][0]["finish_reason"]):
        answered.last = time.perf_counter()
        if math.isnan(answered.first):
            answered.first = answered.last
    elif chunk.get("usage"):
        answered.prompt_tokens = chunk["usage"]["prompt_tokens"]
        answered.output_tokens = chunk["usage"]["completion_tokens"]


async def prefix_counts(client: httpx2.AsyncClient) -> tuple[float, float]:
    """Prefix tokens hit and looked up so far, from the server's metrics."""
    text = (await client.get("/metrics")).text
    hits, queries = (
        float(found[1]) if (found := re.search(rf"^vllm:prefix_cache_{name}_total\{{.*\}} (\S+)$", text, re.M)) else 0.0
        for name in ("hits", "queries")
    )
    return hits, queries


def summary(answered: Sequence[Answered], seconds: float, prefix_hit_ratio: float | None) -> dict[str, Any]:
    good = [one for one in answered if not one.failed]
    first = [one.first - one.sent for one in good]
    per_token = [(one.last - one.first) / (one.output_tokens - 1) for one in good if one.output_tokens > 1]
    output_tokens = sum(one.output_tokens for one in good)
    return {
        "completed": len(good),
        "failed": len(answered) - len(good),
        "duration_s": rounded(seconds),
        "prompt_tokens_mean": rounded(mean(one.prompt_tokens for one in good)) if good else None,
        "output_tokens": output_tokens,
        "ttft_p50_s": percentile(first, 0.5),
        "ttft_p99_s": percentile(first, 0.99),
        "tpot_p50_s": percentile(per_token, 0.5),
        "tpot_p99_s": percentile(per_token, 0.99),
        "tokens_per_s": rounded(output_tokens / seconds),
        "requests_per_s": rounded(len(good) / seconds),
        "prefix_hit_ratio": None if prefix_hit_ratio is None else rounded(prefix_hit_ratio),
    }


def percentile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that at least this share of them does not exceed; None of nothing."""
    return rounded(sorted(values)[math.ceil(share * len(values)) - 1]) if values else None


def ratio(ours: float | None, other: float | None) -> float | None:
    return rounded(ours / other) if ours is not None and other else None


def rounded(value: float) -> float:
    """Four digits: more says more than is known."""
    return float(f"{value:.4g}")


def lines(result: dict[str, Any]) -> Iterator[str]:
    for name, value in result.items():
        if isinstance(value, dict):
            yield f"{name}:"
            yield from (f"  {line}" for line in lines(value))
        else:
            yield f"{name}: {value}"


if __name__ == "__main__":
    sys.exit(main())
