"""Counters and histograms over time, across restarts, and what is no data."""

from __future__ import annotations

import math

import numpy as np
import pytest
from kvxray_backend.metrics.book import MAX_SERIES, MetricsBook
from kvxray_backend.metrics.exposition import Page, Sample
from kvxray_backend.metrics.histograms import Buckets, Quantile, add_all, make_buckets, mean, quantile
from kvxray_backend.metrics.hit_rates import hit_rate
from kvxray_backend.metrics.series import MAX_POINTS, GrowingSeries
from kvxray_backend.metrics.signals import SIGNALS

from tests.backend.metrics.pages import book_of, page, recorded_log

HITS = "vllm:prefix_cache_hits_total {}\n"
BOTH = "vllm:prefix_cache_hits_total {}\nvllm:prefix_cache_queries_total {}\n"


def ttft(*counts: float, name: str = "vllm:time_to_first_token_seconds") -> str:
    """A histogram with buckets up to 0.1, 1 and 10 seconds, and beyond."""
    bounds = ("0.1", "1.0", "10.0", "+Inf")
    lines = [f'{name}_bucket{{le="{bound}"}} {count}' for bound, count in zip(bounds, counts, strict=True)]
    return "\n".join([*lines, f"{name}_sum {counts[-1]}", f"{name}_count {counts[-1]}", ""])


def test_what_a_counter_had_when_it_was_first_seen_is_no_growth() -> None:
    assert book_of(HITS.format(900)).grown("prefix_hits", 60) is None
    grown = book_of(HITS.format(900), HITS.format(910)).grown("prefix_hits", 60)
    assert (grown.amount, grown.seconds) == (10, 10)


def test_a_counter_that_fell_counts_from_0_again() -> None:
    book = MetricsBook()
    assert book.take(0, page(HITS.format(900))) is None
    reset = book.take(10, page(HITS.format(10)))
    assert reset.signals == ("prefix_hits",)
    assert reset.sentence.startswith("1 counter began anew")
    book.take(20, page(HITS.format(25)))
    assert book.grown("prefix_hits", 60).amount == 25
    assert book.rate("prefix_hits", 60) == 1.25
    assert book.value("prefix_hits") == 25


def test_two_resets_lose_nothing_that_was_seen() -> None:
    assert book_of(*(HITS.format(told) for told in (5, 9, 2, 4, 1, 1, 3))).grown("prefix_hits", 600).amount == 4 + 4 + 3


def test_a_restart_that_counters_do_not_show_is_seen_by_the_time_of_the_process() -> None:
    text = HITS + "process_start_time_seconds {}\n"
    book = MetricsBook()
    book.take(0, page(text.format(100, 1000)))
    assert book.take(10, page(text.format(100, 1000.4))) is None
    assert book.take(20, page(text.format(150, 1015))).signals == ("prefix_hits",)
    assert book.grown("prefix_hits", 60).amount == 150


def test_a_counter_born_at_1_counts_as_1() -> None:
    late = 'vllm:nixl_num_notifications_after_expiry_total{engine="0",model_name="m"} 1\n'
    there = 'vllm:num_requests_running{engine="0",model_name="m"} 0\n'
    book = book_of(there, there, there + late)
    assert book.grown("transfer_read_after_expiry", 60).amount == 1


def test_a_reason_met_for_the_first_time_counts_from_0_too() -> None:
    first = 'vllm:request_success_total{engine="0",finished_reason="stop"} 5\n'
    error = 'vllm:request_success_total{engine="0",finished_reason="error"} 2\n'
    book = book_of(first, first + error)
    assert book.grown("requests_finished", 60, "error").amount == 2
    assert book.grown("requests_finished", 60).amount == 2


def test_an_engine_that_was_not_there_before_brings_no_growth_of_its_past() -> None:
    one = 'vllm:prefix_cache_hits_total{pod="a"} 5\n'
    two = 'vllm:prefix_cache_hits_total{pod="b"} 70000\n'
    times = 'vllm:time_to_first_token_seconds_bucket{le="+Inf",pod="b"} 70000\n'
    book = book_of(one, one + two + times)
    assert book.grown("prefix_hits", 60).amount == 0
    assert book.histogram("ttft", 60) is None


def test_one_engine_that_restarts_does_not_hide_the_growth_of_another() -> None:
    text = 'vllm:prefix_cache_hits_total{{engine="0"}} {}\nvllm:prefix_cache_hits_total{{engine="1"}} {}\n'
    assert book_of(text.format(1000, 100), text.format(5, 140)).grown("prefix_hits", 60).amount == 45


def test_a_ratio_has_its_true_denominator() -> None:
    text = 'vllm:prefix_cache_hits_total{{engine="{0}"}} {1}\nvllm:prefix_cache_queries_total{{engine="{0}"}} {2}\n'
    before = text.format(0, 0, 0) + text.format(1, 0, 0)
    after = text.format(0, 9, 10) + text.format(1, 0, 990)
    found = hit_rate(book_of(before, after), "prefix", 60)
    assert (found.value, found.numerator, found.denominator, found.seconds) == (0.009, 9, 1000, 10)


def test_nothing_asked_is_no_data_and_all_missed_is_0() -> None:
    idle = book_of(BOTH.format(5, 10), BOTH.format(5, 10))
    assert hit_rate(idle, "prefix", 60) is None
    missed = book_of(BOTH.format(5, 10), BOTH.format(5, 30))
    assert hit_rate(missed, "prefix", 60).value == 0.0
    assert hit_rate(book_of(BOTH.format(0, 0)), "prefix", None) is None
    assert hit_rate(book_of("vllm:kv_cache_usage_perc 0\n"), "prefix", None) is None


def test_a_window_begins_where_it_is_asked_to() -> None:
    book = book_of(*(BOTH.format(hits, queries) for hits, queries in ((0, 0), (90, 100), (90, 200))))
    assert hit_rate(book, "prefix", 10).value == 0.0
    assert hit_rate(book, "prefix", 20).value == 0.45
    assert hit_rate(book, "prefix", None).value == 0.45


def test_the_rate_of_blocks_stands_in_where_tokens_are_not_told() -> None:
    text = "trtllm_kv_cache_reused_blocks_total {}\ntrtllm_kv_cache_missed_blocks_total {}\n"
    book = book_of(text.format(0, 10), text.format(30, 20))
    assert hit_rate(book, "prefix", 60).value == 0.75
    assert hit_rate(book, "prefix", None).denominator == 50
    assert hit_rate(book, "external", 60) is None


def test_what_the_last_page_does_not_tell_is_not_known_now() -> None:
    book = book_of('vllm:kv_cache_usage_perc{engine="0"} 0.9\n', "vllm:num_requests_running 1\n")
    assert book.value("kv_usage") is None
    assert book.course("kv_usage") == [(0.0, 0.9)]


def test_what_is_told_another_way_now_does_not_count_twice() -> None:
    old = "".join(f'sglang:realtime_tokens_total{{{{mode="prefill_{mode}"}}}} {{0}}\n' for mode in ("cache", "compute"))
    new = "".join(f'sglang:prefill_effective_tokens_total{{mode="{mode}"}} 5\n' for mode in ("device_hit", "input"))
    book = book_of(old.format(100), old.format(150), old.format(155) + new, old.format(170) + new.replace(" 5", " 8"))
    assert book.grown("prefix_hits", 600).amount == 3
    assert book.grown("prefix_queries", 600).amount == 6
    assert book.grown("prompt_tokens_by_source", 600).amount == 6


def test_what_is_told_the_old_way_again_does_not_count_its_past() -> None:
    old = "sglang:cached_tokens_total 90000\n"
    new = 'sglang:realtime_tokens_total{mode="prefill_cache"} 5\n'
    assert book_of(old + new, old + new, old, old).grown("prefix_hits", 600).amount == 0


def test_pages_that_come_late_are_counted_and_left_out() -> None:
    book = book_of(HITS.format(1), HITS.format(2))
    assert book.take(5, page(HITS.format(700))) is None
    assert book.num_late_pages == 1
    assert book.value("prefix_hits") == 2


def test_a_book_says_when_its_last_page_is_old() -> None:
    assert MetricsBook().is_stale(0.0, 15)
    book = book_of(HITS.format(1))
    assert not book.is_stale(15, 15)
    assert book.is_stale(15.1, 15)


def test_the_recorded_hour_is_told_as_it_was() -> None:
    book, truth = MetricsBook(), recorded_log()
    for snapshot in truth:
        text = "".join(f"{series} {value}\n" for series, value in snapshot["metrics"].items())
        assert book.take(snapshot["t"], page(text)) is None
    assert [value for _, value in book.course("kv_usage")] == [0, 0, 1, 0, 0, 0, 0, 0, 0]
    assert book.value("prefix_queries") == 4025
    assert hit_rate(book, "prefix", None).value == pytest.approx(1632 / 4025)
    # From "shared prefixes" on: 704 of 1,216 were found before.
    window = truth[-1]["t"] - truth[1]["t"]
    assert hit_rate(book, "prefix", window).value == pytest.approx((1632 - 704) / (4025 - 1216))


def test_memory_is_bounded_in_points_and_in_series() -> None:
    series = GrowingSeries[float]()
    for at in range(MAX_POINTS * 3):
        series.add(float(at), float(at))
    grown = series.grown(0, MAX_POINTS * 3)
    assert grown.amount == MAX_POINTS - 1
    book = MetricsBook()
    many = tuple(Sample("vllm:kv_cache_usage_perc", {"pod": str(pod)}, 0.5) for pod in range(MAX_SERIES + 5))
    book.take(0, Page(many))
    assert book.num_series_left_out == 5
    assert len(book.by_engine("kv_usage")) == MAX_SERIES


def test_pods_that_are_gone_make_room() -> None:
    book = MetricsBook()
    for at in range(5):
        text = "".join(f'vllm:kv_cache_usage_perc{{pod="{at}-{pod}"}} 0.5\n' for pod in range(1000))
        book.take(at * 4000.0, page(text))
    assert book.num_series_left_out == 0
    assert len(book.course("kv_usage")) == 1


def test_quantiles_are_of_the_window_and_not_of_the_whole_life() -> None:
    book = book_of(ttft(100, 100, 100, 100), ttft(100, 110, 110, 110))
    assert book.quantile("ttft", 0.5, 60) == Quantile(0.1 + 0.9 * 0.5)
    assert book.quantile("ttft", 0.5, None).value < 0.1
    assert book.quantile("ttft", 0.5, 5).value == book.quantile("ttft", 0.5, 60).value


def test_a_quantile_in_the_last_bucket_is_at_least_its_beginning() -> None:
    assert book_of(ttft(0, 0, 0, 0), ttft(1, 1, 1, 4)).quantile("ttft", 0.99, 60) == Quantile(10.0, at_least=True)


def test_an_empty_window_has_no_quantile() -> None:
    book = book_of(ttft(1, 2, 3, 4), ttft(1, 2, 3, 4))
    assert book.quantile("ttft", 0.5, 60) is None
    assert book.quantile("queue_time", 0.5, 60) is None


def test_a_histogram_that_fell_counts_from_0_again() -> None:
    book = MetricsBook()
    book.take(0, page(ttft(50, 50, 50, 50)))
    assert book.take(10, page(ttft(0, 0, 8, 8))).signals == ("ttft",)
    assert book.histogram("ttft", 60).num == 8
    assert book.quantile("ttft", 0.5, 60) == Quantile(1 + 9 * 0.5)


def test_a_histogram_with_other_buckets_began_anew() -> None:
    other = 'vllm:time_to_first_token_seconds_bucket{le="5"} 3\nvllm:time_to_first_token_seconds_bucket{le="+Inf"} 90\n'
    book = MetricsBook()
    book.take(0, page(ttft(1, 2, 3, 4)))
    assert book.take(10, page(other)).signals == ("ttft",)
    assert book.histogram("ttft", 60).num == 90


def test_engines_with_different_buckets_have_no_quantile_together() -> None:
    one = Buckets((1.0, math.inf), np.array([1.0, 2.0]), 3.0)
    other = Buckets((2.0, math.inf), np.array([1.0, 2.0]), 3.0)
    assert add_all([one, other]) is None
    assert add_all([one, one]).num == 4
    assert add_all([]) is None


def test_the_first_value_of_a_histogram_is_in_its_bucket() -> None:
    buckets = Buckets((1.0, 2.0, 4.0, math.inf), np.array([0.0, 0.0, 5.0, 5.0]), 15.0)
    assert quantile(buckets, 0.0) == Quantile(2.0)
    assert quantile(buckets, 1.0) == Quantile(4.0)
    assert mean(buckets) == 3.0


@pytest.mark.parametrize(
    "by_bound", [{1.0: 1.0}, {math.inf: math.inf}, {1.0: -1.0, math.inf: 2.0}, {float(n): 1.0 for n in range(400)}]
)
def test_lines_that_make_no_histogram_make_none(by_bound: dict[float, float]) -> None:
    assert make_buckets(by_bound, None, None) is None


def test_a_page_written_while_counting_still_rises() -> None:
    torn = make_buckets({1.0: 5.0, 2.0: 4.0, math.inf: 6.0}, None, None)
    assert list(torn.counts) == [5, 5, 6]
    assert mean(torn) is None


def test_a_histogram_with_one_endless_bucket_tells_no_quantile() -> None:
    assert quantile(make_buckets({}, 5.0, 1.0), 0.5) is None


def test_the_steps_of_an_engine_are_the_count_of_its_iterations() -> None:
    text = 'vllm:iteration_tokens_total_bucket{{le="+Inf"}} {0}\nvllm:iteration_tokens_total_count {0}\n'
    assert SIGNALS["iteration_tokens"].kind == "histogram"
    assert book_of(text.format(400), text.format(476)).histogram("iteration_tokens", 60).num == 76
