"""Metrics against themselves and against events."""

from __future__ import annotations

import pytest
from kvxray_backend.metrics.book import MetricsBook
from kvxray_backend.metrics.configuration import PoolShape
from kvxray_backend.metrics.contradictions import Told, contradictions, flapping, remarks
from kvxray_backend.metrics.exposition import parse_page

from tests.backend.metrics.pages import book_of, recorded_body

POOL = "sglang:kv_available_tokens {}\nsglang:kv_evictable_tokens {}\nsglang:kv_used_tokens {}\n"


def codes(*texts: str, shape: PoolShape | None = None, told: Told | None = None) -> list[str]:
    return [found.code for found in contradictions(book_of(*texts), shape, told)]


def test_a_real_page_contradicts_nothing() -> None:
    book = MetricsBook()
    book.take(0, parse_page(recorded_body()))
    assert contradictions(book, PoolShape(24, 32, 23), Told(cached_blocks=22, complete=True, hits_grew_by=1632)) == []


def test_usage_of_0_beside_cached_blocks_is_explained_and_no_contradiction() -> None:
    book = MetricsBook()
    book.take(0, parse_page(recorded_body()))
    (remark,) = remarks(book, Told(cached_blocks=22))
    assert remark.startswith("0 % is in use while 22 blocks are cached")
    assert remarks(book, Told(cached_blocks=0)) == []
    assert remarks(book) == []


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("vllm:kv_cache_usage_perc 1.2\n", "metrics_contradiction:kv_usage"),
        ("dynamo_component_kvstats_gpu_cache_usage_percent 42\n", "metrics_contradiction:kv_usage"),
        ("vllm:num_requests_running -1\n", "metrics_contradiction:requests_running"),
        ("vllm:prefix_cache_hits_total 11\nvllm:prefix_cache_queries_total 10\n", "metrics_contradiction:prefix_hits"),
        ("vllm:mm_cache_hits_total 3\nvllm:mm_cache_queries_total 2\n", "metrics_contradiction:multimodal_hits"),
        (
            'vllm:prompt_tokens_total 100\nvllm:prompt_tokens_by_source_total{source="local_compute"} 150\n',
            "metrics_contradiction:prompt_tokens_by_source",
        ),
        (
            'vllm:num_requests_waiting 2\nvllm:num_requests_waiting_by_reason{reason="capacity"} 9\n',
            "metrics_contradiction:requests_waiting_by_reason",
        ),
        ("vllm:gpu_prefix_cache_hit_rate 0.3\n", "hit_rate_suspect:gauge_only"),
        (POOL.format(644, 269628, 0) + "sglang:max_total_num_tokens 270331\n", "conservation_violation:59"),
        (POOL.format(60, 30, 20) + "sglang:max_total_num_tokens 100\n", "conservation_violation:-10"),
    ],
)
def test_each_contradiction_is_found_alone_and_said_in_one_sentence(text: str, code: str) -> None:
    (found,) = contradictions(book_of(text))
    assert found.code == code
    assert found.numbers
    assert "\n" not in found.sentence


@pytest.mark.parametrize(
    "text",
    [
        "",
        "vllm:kv_cache_usage_perc 1.0\n",
        "vllm:kv_cache_usage_perc NaN\n",
        "vllm:prefix_cache_hits_total 10\nvllm:prefix_cache_queries_total 10\n",
        "vllm:prefix_cache_hits_total 10\n",
        'vllm:prompt_tokens_total 1000\nvllm:prompt_tokens_by_source_total{source="local_compute"} 1005\n',
        POOL.format(60, 30, 20) + "sglang:max_total_num_tokens 100\nsglang:num_running_reqs 3\n",
        POOL.format(60, 30, 10) + "sglang:max_total_num_tokens 100\n",
        "sglang:kv_available_tokens 5\nsglang:max_total_num_tokens 100\n",
        "vllm:num_preemptions_total 1538\nvllm:request_success_total 19801\n",
    ],
)
def test_what_can_be_so_contradicts_nothing(text: str) -> None:
    assert codes(text) == []


def test_more_cached_blocks_than_the_pool_has_is_a_contradiction() -> None:
    usage = "vllm:kv_cache_usage_perc 0\n"
    shape = PoolShape(24, 32, 23)
    assert codes(usage, shape=shape, told=Told(cached_blocks=24)) == ["metrics_contradiction:kv_capacity_blocks"]
    assert codes(usage, shape=shape, told=Told(cached_blocks=23)) == []
    assert codes(usage, told=Told(cached_blocks=24)) == []
    capacity = "trtllm_kv_cache_max_blocks 10\n"
    assert codes(capacity, told=Told(cached_blocks=11)) == ["metrics_contradiction:kv_capacity_blocks"]


def test_hits_in_a_cache_that_events_call_empty_are_a_contradiction_only_if_nothing_is_missing() -> None:
    text = "vllm:kv_cache_usage_perc 0\n"
    assert codes(text, told=Told(0, complete=True, hits_grew_by=64)) == ["metrics_contradiction:prefix_hits"]
    assert codes(text, told=Told(0, complete=False, hits_grew_by=64)) == []
    assert codes(text, told=Told(0, complete=True, hits_grew_by=0)) == []


def test_a_gauge_of_the_last_batch_is_explained_where_counters_tell_more() -> None:
    book = book_of(
        "sglang:cache_hit_rate 0\n"
        'sglang:realtime_tokens_total{mode="prefill_cache"} 500\n'
        'sglang:realtime_tokens_total{mode="prefill_compute"} 500\n'
    )
    assert contradictions(book) == []
    (remark,) = remarks(book)
    assert "0%" in remark
    assert "50%" in remark


def test_counters_that_begin_anew_again_and_again_are_of_several_engines() -> None:
    assert flapping([0, 20, 40]).code == "metrics_contradiction:counters"
    assert flapping([0, 20, 100, 300]) is None
    assert flapping([]) is None


def at_rest(*running: float, grows: float = 0, every_s: float = 20) -> MetricsBook:
    book = MetricsBook()
    for number, value in enumerate(running):
        text = f"vllm:num_requests_running {value}\nvllm:prompt_tokens_total {100 + number * grows}\n"
        book.take(number * every_s, parse_page(text.encode()))
    return book


def test_metrics_of_an_engine_at_rest_contradict_events_of_one_at_work() -> None:
    (found,) = contradictions(at_rest(0, 0, 0, 0), None, Told(stored=7))
    assert found.code == "metrics_contradiction:requests_running"
    assert found.numbers == {"stored": 7, "running": 0}
    assert found.sentence.startswith("events tell of 7 blocks stored within a minute in which the metrics tell of no")


@pytest.mark.parametrize(
    ("book", "stored"),
    [
        pytest.param(at_rest(0, 0, 0, 0), 0, id="nothing was stored"),
        pytest.param(at_rest(0, 0, 0, 0), None, id="events do not say"),
        pytest.param(at_rest(0, 1, 0, 0), 7, id="a request ran meanwhile"),
        pytest.param(at_rest(0, 0, 0, 0, grows=1), 7, id="prompts came and went between pages"),
        pytest.param(at_rest(0, 0, 0, 0, every_s=15), 7, id="read for less than a minute"),
        pytest.param(at_rest(0, 0, every_s=60), 7, id="two pages tell little"),
    ],
)
def test_work_that_metrics_may_have_missed_contradicts_nothing(book: MetricsBook, stored: int | None) -> None:
    assert contradictions(book, None, Told(stored=stored)) == []
