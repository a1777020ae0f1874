"""The metrics under vLLM's names: what they count is what the engine did, on the engine's own clock."""

import re

import pytest
from kvxray_engine.clock import VirtualClock
from kvxray_engine.engine import EngineConfig, LLMEngine
from kvxray_engine.null_model import NullModel
from kvxray_engine.request import NewRequest
from kvxray_engine.server.engine_loop import EngineLoop
from kvxray_engine.server.engine_metrics import EngineMetrics
from kvxray_engine.server.prometheus_text import Family, Histogram, Sample, exposition
from kvxray_engine.step_batch import SamplingParams

LINE = re.compile(r"^(?P<name>[a-z0-9_:]+)\{(?P<labels>[^{}]*)\} (?P<value>\S+)$")


def parse(text: str) -> dict[tuple[str, ...], float]:
    """(name, label=value, ...) -> value, the labels of every line of an engine left out."""
    samples = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        found = LINE.match(line)
        assert found, f"not a sample: {line}"
        labels = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', found["labels"])
        rest = tuple(f"{name}={value}" for name, value in labels if name not in ("model_name", "engine"))
        samples[(found["name"], *rest)] = float(found["value"])
    return samples


class World:
    """Steps of 20 ms and 0.2 ms a token, on a clock that only they move."""

    def __init__(self, num_blocks: int = 33, **config) -> None:
        self.clock = VirtualClock()
        model = NullModel(num_blocks, 4, vocab_size=50, max_model_len=100, clock=self.clock, token_ns=0)
        self.engine = LLMEngine(model, EngineConfig(**config), clock=self.clock)
        self.metrics = EngineMetrics(self.engine, "null", {"gpu_memory_utilization": "0.9"})
        self.loop = EngineLoop(self.engine, [self.metrics])

    def add(self, name: str, prompt: list[int], max_tokens: int = 3) -> None:
        self.engine.add_request(NewRequest(name, prompt, SamplingParams(max_tokens=max_tokens, ignore_eos=True)))

    def step(self, steps: int = 1) -> None:
        for _ in range(steps):
            self.loop.step()
            self.engine.check_integrity()
            self.metrics.check_integrity()

    def read(self) -> dict[tuple[str, ...], float]:
        return parse(self.metrics.text())


def test_tokens_hits_and_endings_are_counted() -> None:
    world = World()
    world.add("a", [1] * 9, max_tokens=3)
    world.step(4)
    world.add("b", [1] * 9 + [2], max_tokens=2)
    world.step(4)
    seen = world.read()
    assert seen["vllm:prompt_tokens_total",] == 19
    assert seen["vllm:prompt_tokens_cached_total",] == 8
    assert seen["vllm:generation_tokens_total",] == 5
    assert seen["vllm:prefix_cache_queries_total",] == 19
    assert seen["vllm:prefix_cache_hits_total",] == 8
    assert seen["vllm:request_success_total", "finished_reason=length"] == 2
    assert seen["vllm:request_success_total", "finished_reason=abort"] == 0
    assert seen["vllm:num_requests_running",] == seen["vllm:kv_cache_usage_perc",] == 0


def test_gauges_say_how_it_is_now() -> None:
    world = World(num_blocks=9, max_num_seqs=1)
    world.add("a", [1] * 7, max_tokens=9)
    world.add("b", [2] * 7)
    world.step()
    seen = world.read()
    assert (seen["vllm:num_requests_running",], seen["vllm:num_requests_waiting",]) == (1, 1)
    assert seen["vllm:kv_cache_usage_perc",] == 2 / 8


def test_latencies_are_those_of_the_engines_clock() -> None:
    world = World()
    world.add("a", [1] * 9, max_tokens=3)
    world.clock.advance_ns(1_000_000_000)
    world.step(3)
    seen = world.read()
    assert seen["vllm:time_to_first_token_seconds_sum",] == pytest.approx(1.02)
    assert seen["vllm:time_to_first_token_seconds_bucket", "le=1.0"] == 0
    assert seen["vllm:time_to_first_token_seconds_bucket", "le=2.5"] == 1
    assert seen["vllm:inter_token_latency_seconds_sum",] == pytest.approx(0.04)
    assert seen["vllm:inter_token_latency_seconds_count",] == 2
    assert seen["vllm:request_time_per_output_token_seconds_sum",] == pytest.approx(0.02)
    assert seen["vllm:request_queue_time_seconds_sum",] == pytest.approx(1.0)
    assert seen["vllm:request_prefill_time_seconds_sum",] == pytest.approx(0.02)
    assert seen["vllm:request_decode_time_seconds_sum",] == pytest.approx(0.04)
    assert seen["vllm:request_inference_time_seconds_sum",] == pytest.approx(0.06)
    assert seen["vllm:e2e_request_latency_seconds_sum",] == pytest.approx(1.06)
    assert seen["vllm:iteration_tokens_total_sum",] == (9 + 1) + 1 + 1


def test_hits_on_ones_own_blocks_after_a_preemption_are_not_counted() -> None:
    world = World(num_blocks=9)
    for name, token in (("a", 1), ("b", 2), ("c", 3)):
        world.add(name, [token] * 9, max_tokens=12)
    world.step(60)
    seen = world.read()
    assert seen["vllm:num_preemptions_total",] > 0
    assert seen["vllm:prefix_cache_queries_total",] == 27
    assert seen["vllm:prefix_cache_hits_total",] == 0
    assert seen["vllm:prompt_tokens_cached_total",] == 0
    assert seen["vllm:request_num_preemptions_sum",] == seen["vllm:num_preemptions_total",]
    assert seen["vllm:request_num_preemptions_count",] == 3


def test_one_that_ends_before_its_first_token_leaves_no_latency_of_tokens() -> None:
    world = World(max_num_seqs=1)
    world.add("a", [1] * 9, max_tokens=9)
    world.add("b", [2] * 9)
    world.step()
    world.engine.abort_request("b")
    world.step()
    seen = world.read()
    assert seen["vllm:request_success_total", "finished_reason=abort"] == 1
    assert seen["vllm:e2e_request_latency_seconds_count",] == 1
    assert seen["vllm:time_to_first_token_seconds_count",] == 1


def test_the_cache_is_described() -> None:
    text = World().metrics.text()
    (line,) = [line for line in text.splitlines() if line.startswith("vllm:cache_config_info{")]
    for label in ('block_size="4"', 'num_gpu_blocks="33"', 'enable_prefix_caching="True"', 'cache_dtype="none"'):
        assert label in line
    assert 'gpu_memory_utilization="0.9"' in line
    assert 'vllm:num_requests_running{model_name="null",engine="0"} 0.0' in text


def test_every_family_has_help_and_a_type_and_counters_end_in_total() -> None:
    text = World().metrics.text()
    kinds = dict(re.findall(r"^# TYPE (\S+) (\w+)$", text, re.M))
    assert set(re.findall(r"^# HELP (\S+) .+\.$", text, re.M)) == set(kinds)
    assert all(name.endswith("_total") for name, kind in kinds.items() if kind == "counter")
    assert {kinds["vllm:kv_cache_usage_perc"], kinds["vllm:e2e_request_latency_seconds"]} == {"gauge", "histogram"}


def test_buckets_are_cumulative_and_a_value_on_a_bound_is_within_it() -> None:
    histogram = Histogram("seconds", "Help.", (1, 2))
    for value in (0.5, 1.0, 1.5, 99.0):
        histogram.observe(value)
    assert [(s.suffix, s.labels.get("le"), s.value) for s in histogram.family({}).samples] == [
        ("_bucket", "1.0", 2),
        ("_bucket", "2.0", 3),
        ("_bucket", "+Inf", 4),
        ("_sum", None, 102.0),
        ("_count", None, 4),
    ]


def test_names_that_would_break_a_line_are_escaped() -> None:
    text = exposition([Family("up", "Is\nit?", "gauge", [Sample(1, {"model_name": 'a"b\\c\nd'})])])
    assert text == '# HELP up Is\\nit?\n# TYPE up gauge\nup{model_name="a\\"b\\\\c\\nd"} 1.0\n'
