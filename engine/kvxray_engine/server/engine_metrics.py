"""What the engine does, under vLLM's metric names, so that dashboards and alerts made for vLLM work.

A listener of the engine's loop: it counts in the engine's thread what the outputs of a step tell, and reads the
engine's own counts then. Times are the engine's clock. Names and buckets are those of vLLM 0.33.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kvxray_engine.engine import LLMEngine, RequestOutput
from kvxray_engine.request import FinishReason, Request
from kvxray_engine.server.prometheus_text import Family, Histogram, Sample, exposition

# fmt: off
_FIRST_TOKEN_S: Final = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0,
    640.0, 2560.0,
)
_TOKEN_S: Final = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)
_REQUEST_S: Final = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
)
_STEP_TOKENS: Final = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
_PREEMPTIONS: Final = (1, 2, 3, 4, 5, 10, 20)
_TOKENS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000)
# fmt: on


@dataclass(slots=True)
class _Running:
    """What is remembered of a request between its tokens."""

    scheduled_ns: int  # of its first admission that led to a token
    last_token_ns: int


class EngineMetrics:
    """Counts for one engine. `config`: what `cache_config_info` tells besides the pool's own shape."""

    def __init__(self, engine: LLMEngine, model_name: str, config: Mapping[str, str] | None = None) -> None:
        self.engine = engine
        self._labels = {"model_name": model_name, "engine": "0"}
        self._config = dict(config or {})
        self._lock = threading.Lock()
        self._running: dict[str, _Running] = {}
        self._prompt_tokens = 0
        self._cached_tokens = 0
        self._generated_tokens = 0
        self._ended = dict.fromkeys(FinishReason, 0)
        self._first_token = Histogram("vllm:time_to_first_token_seconds", "Arrival to first token.", _FIRST_TOKEN_S)
        self._between = Histogram("vllm:inter_token_latency_seconds", "From one token to the next.", _TOKEN_S)
        self._per_token = Histogram(
            "vllm:request_time_per_output_token_seconds", "Mean time a token after the first, by request.", _TOKEN_S
        )
        self._whole = Histogram("vllm:e2e_request_latency_seconds", "Arrival to end, by request.", _REQUEST_S)
        self._queue = Histogram("vllm:request_queue_time_seconds", "Arrival to admission, by request.", _REQUEST_S)
        self._prefill = Histogram("vllm:request_prefill_time_seconds", "Admission to first token.", _REQUEST_S)
        self._decode = Histogram("vllm:request_decode_time_seconds", "First token to end, by request.", _REQUEST_S)
        self._inference = Histogram("vllm:request_inference_time_seconds", "Admission to end, by request.", _REQUEST_S)
        self._step_tokens = Histogram("vllm:iteration_tokens_total", "Prefilled and generated in a step.", _STEP_TOKENS)
        self._prompt_length = Histogram("vllm:request_prompt_tokens", "Prompt tokens of a request.", _TOKENS)
        self._answer_length = Histogram("vllm:request_generation_tokens", "Tokens generated for a request.", _TOKENS)
        self._preempted = Histogram("vllm:request_num_preemptions", "Preemptions of a request.", _PREEMPTIONS)
        self._own_counts: list[Family] = self._read_engine()

    def take(self, outputs: Sequence[RequestOutput]) -> None:
        """Counts what a step brought; the engine's thread."""
        now = self.engine.clock.wall_ns()
        with self._lock:
            first_tokens = 0
            for output in outputs:
                assert output.request is not None, "the engine tells whose tokens these are"
                first_tokens += bool(output.new_token_ids) and output.request_id not in self._running
                if output.new_token_ids:
                    self._count_tokens(output.request, len(output.new_token_ids), now)
                if output.finish_reason is not None:
                    self._count_end(output.request, output.finish_reason)
            if self.engine.computed_tokens:
                # As vLLM counts: a token that ends a prefill is generated besides what was prefilled.
                self._step_tokens.observe(self.engine.computed_tokens + first_tokens)
            self._own_counts = self._read_engine()

    def text(self) -> str:
        """The exposition; any thread."""
        with self._lock:
            return exposition([*self._own_counts, *self._counted()])

    def check_integrity(self) -> None:
        with self._lock:
            live = {request.request_id for request in self.engine.scheduler.requests()}
            assert self._running.keys() <= live, "requests are remembered that have ended"

    def _count_tokens(self, request: Request, num_tokens: int, now: int) -> None:
        self._generated_tokens += num_tokens
        running = self._running.get(request.request_id)
        if running is None:
            self._running[request.request_id] = _Running(request.scheduled_ns, now)
            self._prompt_tokens += request.num_prompt_tokens
            self._cached_tokens += min(request.hit_tokens, request.num_prompt_tokens)
            self._first_token.observe(_seconds(request.arrived_ns, now))
        else:
            self._between.observe(_seconds(running.last_token_ns, now))
            running.last_token_ns = now

    def _count_end(self, request: Request, reason: FinishReason) -> None:
        self._ended[reason] += 1
        self._whole.observe(_seconds(request.arrived_ns, request.ended_ns))
        self._prompt_length.observe(request.num_prompt_tokens)
        self._answer_length.observe(request.num_output_tokens)
        self._preempted.observe(request.num_preemptions)
        running = self._running.pop(request.request_id, None)
        if running is None:
            return  # it ended before its first token
        first, end = request.first_token_ns, request.ended_ns
        self._queue.observe(_seconds(request.arrived_ns, running.scheduled_ns))
        self._prefill.observe(_seconds(running.scheduled_ns, first))
        self._decode.observe(_seconds(first, end))
        self._inference.observe(_seconds(running.scheduled_ns, end))
        if request.num_output_tokens > 1:
            self._per_token.observe(_seconds(first, end) / (request.num_output_tokens - 1))

    def _read_engine(self) -> list[Family]:
        """What the engine counts itself, as it is between two steps."""
        engine, stats = self.engine, self.engine.prefix_cache.stats
        queried = stats.queried_tokens - stats.readmitted_queried_tokens
        hit = stats.hit_tokens - stats.readmitted_hit_tokens
        return [
            self._gauge("vllm:num_requests_running", "Requests in the batch.", len(engine.scheduler.running)),
            self._gauge("vllm:num_requests_waiting", "Requests that wait.", len(engine.scheduler.waiting)),
            self._gauge(
                "vllm:kv_cache_usage_perc", "Share of KV blocks that are referenced, 0 to 1.", engine.pool.usage
            ),
            self._counter("vllm:prefix_cache_queries", "Prompt tokens looked up at first admissions.", queried),
            self._counter("vllm:prefix_cache_hits", "Prompt tokens found cached at first admissions.", hit),
            self._counter("vllm:num_preemptions", "Preemptions.", engine.scheduler.num_preemptions),
        ]

    def _counted(self) -> Iterator[Family]:
        yield self._counter("vllm:prompt_tokens", "Prompt tokens, cached ones included.", self._prompt_tokens)
        yield self._counter("vllm:prompt_tokens_cached", "Prompt tokens that were cached.", self._cached_tokens)
        yield self._counter("vllm:generation_tokens", "Tokens generated.", self._generated_tokens)
        ended = [Sample(n, {**self._labels, "finished_reason": reason.value}) for reason, n in self._ended.items()]
        yield Family("vllm:request_success_total", "Requests that ended, by reason.", "counter", ended)
        for histogram in (
            self._first_token, self._between, self._per_token, self._whole, self._queue, self._prefill, self._decode,
            self._inference, self._step_tokens, self._prompt_length, self._answer_length, self._preempted,
        ):  # fmt: skip
            yield histogram.family(self._labels)
        yield self._cache_config()

    def _cache_config(self) -> Family:
        engine = self.engine
        labels = {
            "engine": self._labels["engine"],
            "block_size": str(engine.pool.block_size),
            "cache_dtype": engine.model.kv_cache_dtype,
            "enable_prefix_caching": str(engine.prefix_cache.enabled),
            "num_gpu_blocks": str(engine.pool.num_blocks),
            "prefix_caching_hash_algo": "sha256_cbor",
            **self._config,
        }
        return Family("vllm:cache_config_info", "The KV cache's configuration.", "gauge", [Sample(1, labels)])

    def _gauge(self, name: str, help_text: str, value: float) -> Family:
        return Family(name, help_text, "gauge", [Sample(value, self._labels)])

    def _counter(self, name: str, help_text: str, value: float) -> Family:
        return Family(f"{name}_total", help_text, "counter", [Sample(value, self._labels)])


def _seconds(start_ns: int, end_ns: int) -> float:
    """Never negative: the wall clock may be set back between two readings."""
    return max(0, end_ns - start_ns) / 1e9
