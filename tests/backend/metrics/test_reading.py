"""What a page tells of each engine, each fact once."""

from __future__ import annotations

import pytest
from kvxray_backend.metrics.book import MetricsBook
from kvxray_backend.metrics.exposition import parse_page
from kvxray_backend.metrics.reading import read_page
from kvxray_backend.metrics.source_labels import source_labels

from tests.backend.metrics.pages import book_of, page, recorded_body


def test_the_recorded_page_tells_what_the_server_did() -> None:
    book = MetricsBook()
    assert book.take(1.0, parse_page(recorded_body())) is None
    assert book.value("kv_usage") == 0.0
    assert book.value("prefix_queries") == 4025
    assert book.value("prefix_hits") == 1632
    assert book.value("preemptions") == 4
    assert book.parts("requests_finished") == {"abort": 0, "error": 0, "length": 22, "repetition": 0, "stop": 0}
    assert book.value("requests_finished") == 22
    assert book.parts("prompt_tokens_by_source") == {
        "external_kv_transfer": 0,
        "local_cache_hit": 1632,
        "local_compute": 2393,
    }
    assert book.value("prompt_tokens_by_source") == book.value("prompt_tokens")
    assert book.parts("sleep_state")["awake"] == 1
    assert book.value("kv_fetch_by_stage") is None
    assert book.histogram("ttft", None).num == 23
    assert book.num_unreadable == 0


def test_a_release_between_two_names_is_not_counted_twice() -> None:
    book = book_of('vllm:gpu_prefix_cache_hits_total{engine="0"} 40\nvllm:prefix_cache_hits_total{engine="0"} 40\n')
    assert book.value("prefix_hits") == 40


def test_of_two_engines_each_may_have_a_name_of_its_own() -> None:
    book = book_of('vllm:gpu_cache_usage_perc{engine="0"} 0.2\nvllm:kv_cache_usage_perc{engine="1"} 0.9\n')
    assert sorted(book.by_engine("kv_usage").values()) == [0.2, 0.9]
    assert book.value("kv_usage") == 0.9


def test_the_same_series_spelled_twice_is_one() -> None:
    assert book_of("vllm:num_requests_running 3\nray_vllm:num_requests_running 3\n").value("requests_running") == 3


def test_tensor_parallel_ranks_repeat_and_data_parallel_ranks_add_up() -> None:
    lines = [
        f'sglang:num_running_reqs{{model_name="m",dp_rank="{dp}",tp_rank="{tp}",pp_rank="0"}} {dp + 1}'
        for dp in (0, 1)
        for tp in (0, 1, 10, 2)
    ]
    book = book_of("\n".join(lines))
    assert book.value("requests_running") == 3
    assert len(book.by_engine("requests_running")) == 2


def test_the_lowest_rank_speaks_and_ten_is_above_two() -> None:
    book = book_of('sglang:kv_used_tokens{tp_rank="10"} 7\nsglang:kv_used_tokens{tp_rank="2"} 5\n')
    assert book.value("kv_used_tokens") == 5


def test_priorities_are_parts_of_the_whole_that_is_told_beside_them() -> None:
    whole = 'sglang:num_queue_reqs{priority=""} 5\n'
    parts = 'sglang:num_queue_reqs{priority="1"} 3\nsglang:num_queue_reqs{priority="2"} 2\n'
    assert book_of(whole + parts).value("requests_waiting") == 5
    assert book_of(parts).value("requests_waiting") == 5


def test_waiting_by_reason_is_told_apart_and_together() -> None:
    book = book_of(
        'vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 4\n'
        'vllm:num_requests_waiting_by_reason{engine="0",reason="deferred"} 1\n'
        'vllm:num_requests_waiting_by_reason{engine="1",reason="capacity"} 2\n'
    )
    assert book.parts("requests_waiting_by_reason") == {"capacity": 6, "deferred": 1}
    assert book.value("requests_waiting_by_reason") == 7


def test_sglang_hits_come_from_the_counter_that_tells_them_best() -> None:
    effective = "".join(
        f'sglang:prefill_effective_tokens_total{{tp_rank="{tp}",mode="{mode}"}} {tokens}\n'
        for tp in (0, 1)
        for mode, tokens in (("input", 70), ("device_hit", 20), ("host_hit", 6), ("storage_hit", 4))
    )
    book = book_of(
        effective + 'sglang:cached_tokens_total{cache_source="device"} 999\nsglang:prompt_tokens_total 1000\n'
    )
    assert book.value("prefix_hits") == 30
    assert book.value("prefix_queries") == 100
    assert book.parts("cached_prompt_tokens_by_tier") == {"device": 999}


def test_a_part_that_no_case_fell_into_yet_is_0_and_not_unknown() -> None:
    book = book_of('sglang:realtime_tokens_total{mode="prefill_compute"} 17\n')
    assert book.value("prefix_hits") == 0
    assert book.value("prefix_queries") == 17


def test_blocks_of_tensorrt_become_tokens_where_it_tells_its_block_size() -> None:
    text = "trtllm_kv_cache_reused_blocks_total 3\ntrtllm_kv_cache_missed_blocks_total 5\n"
    assert book_of(text).value("prefix_hits") is None
    assert book_of(text).value("reused_blocks") == 3
    book = book_of(text + 'trtllm_kv_cache_tokens_per_block{role="both"} 32\n')
    assert book.value("prefix_hits") == 96
    assert book.value("prefix_queries") == 256


def test_a_sum_of_two_metrics_is_not_told_by_one_of_them() -> None:
    book = book_of("trtllm_kv_cache_reused_blocks_total 3\ntrtllm_kv_cache_tokens_per_block 32\n")
    assert book.value("prefix_queries") is None


def test_dynamo_counts_only_where_the_engine_itself_is_silent() -> None:
    dynamo = 'dynamo_frontend_inflight_requests{model="m"} 2\n'
    assert book_of('vllm:num_requests_running{engine="0"} 2\n' + dynamo).value("requests_running") == 2
    assert book_of(dynamo).value("requests_running") == 2


def test_two_families_with_the_same_labels_are_two_engines() -> None:
    text = "vllm:prefix_cache_hits_total {}\nsglang:cached_tokens_total {}\n"
    assert book_of(text.format(10, 500), text.format(13, 504)).grown("prefix_hits", 60).amount == 7


@pytest.mark.parametrize("text", ["NaN", "+Inf", "-Inf"])
def test_a_value_that_is_no_number_is_not_known_and_counted(text: str) -> None:
    book = book_of(f"vllm:kv_cache_usage_perc {text}\nvllm:num_requests_running 1\n")
    assert book.value("kv_usage") is None
    assert book.value("requests_running") == 1
    assert book.num_unreadable == 1


def test_a_counter_below_0_is_no_counter() -> None:
    book = book_of("vllm:num_preemptions_total -3\n")
    assert book.value("preemptions") is None
    assert book.num_unreadable == 1


def test_the_process_that_serves_a_page_tells_when_it_began() -> None:
    assert read_page(parse_page(recorded_body())).started_at == 1795954594.96
    assert (
        read_page(page('process_start_time_seconds{a="1"} 5\nprocess_start_time_seconds{a="2"} 6\n')).started_at is None
    )


def test_labels_that_all_agree_on_are_those_of_the_source() -> None:
    text = 'vllm:num_requests_running{engine="0",model_name="m",pod="a",namespace="n"} 1\n'
    assert source_labels(page(text)) == {"engine": "0", "model": "m", "pod": "a", "namespace": "n"}
    two = text + text.replace('"a"', '"b"')
    assert source_labels(page(two)) == {"engine": "0", "model": "m", "namespace": "n"}


@pytest.mark.parametrize(("told", "role"), [("prefill", "prefill"), ("unified", None)])
def test_the_role_is_one_of_ours_or_not_told(told: str, role: str | None) -> None:
    assert source_labels(page(f'sglang:token_usage{{engine_type="{told}"}} 0\n')).get("role") == role


def test_labels_of_other_programs_are_not_the_engines() -> None:
    assert source_labels(page('http_requests_total{pod="x"} 1\n')) == {}
