"""The overview's figures out of metrics: what is told has its number, what is not is not observable and never 0."""

from __future__ import annotations

import pytest
from kvxray_backend.metrics.exposition import parse_page
from kvxray_backend.overview_figures import NOT_TOLD
from kvxray_backend.overview_signals import FIGURES, figures, not_told
from kvxray_backend.sources.foreign.metrics_watch import MetricsWatch

from tests.backend.metrics.pages import recorded_body


def watch_of(*texts, every_s=10.0):
    watch = MetricsWatch("engine")
    for number, text in enumerate(texts):
        watch.take(number * every_s, parse_page(text.encode()))
    return watch


def value_of(name, *texts, **more):
    return figures(watch_of(*texts, **more))[name].value


def test_whatever_only_metrics_can_tell_is_told_by_them():
    assert set(NOT_TOLD) - {"transfers"} <= FIGURES.keys()


def test_without_metrics_nothing_is_observable():
    for told in (figures(MetricsWatch("engine")), not_told(), figures(watch_of("python_info 1\n"))):
        assert {figure.certainty for figure in told.values()} == {"not_observable"}
        assert {figure.value for figure in told.values()} == {None}


def test_a_gauge_is_told_as_it_stands():
    text = "vllm:kv_cache_usage_perc {}\nvllm:num_requests_running 3\nvllm:num_requests_waiting 0\n"
    told = figures(watch_of(text.format(0.25), text.format(0.75)))
    assert (told["used"].value, told["used"].certainty) == (0.75, "derived")
    assert (told["used_mean_5m"].value, told["used_max_5m"].value) == (0.5, 0.75)
    assert (told["running"].value, told["waiting"].value) == (3, 0)
    assert told["waiting_for_capacity"].certainty == "not_observable"


def test_who_waits_is_told_by_reason():
    text = "".join(
        f'vllm:num_requests_waiting_by_reason{{reason="{why}"}} {num}\n'
        for why, num in (("capacity", 4), ("deferred", 1))
    )
    told = figures(watch_of(text))
    assert (told["waiting_for_capacity"].value, told["waiting_deferred"].value) == (4, 1)


def test_a_hit_rate_comes_with_what_was_asked_and_without_it_there_is_no_data():
    text = "vllm:prefix_cache_hits_total {}\nvllm:prefix_cache_queries_total {}\n"
    told = figures(watch_of(text.format(0, 0), text.format(30, 120)))
    assert (told["hit_rate"].value, told["prompt_tokens_queried"].value) == (0.25, 120)
    assert told["prompt_tokens_computed"].value == 90
    still = figures(watch_of(text.format(30, 120), text.format(30, 120)))["hit_rate"]
    assert (still.value, still.certainty) == (None, "derived")


@pytest.mark.parametrize(
    ("parts", "host", "external"),
    [
        ('vllm:prompt_tokens_cached_by_source_total{{source="{}"}} {}\n', "host", "disk"),
        ('sglang:cached_tokens_total{{cache_source="{}"}} {}\n', "host", "storage"),
    ],
)
def test_hit_rates_of_tiers_are_of_all_that_was_asked(parts, host, external):
    def text(queried, in_host, beyond):
        asked = f"vllm:prefix_cache_queries_total {queried}\n" if parts.startswith("vllm") else ""
        asked = asked or f"sglang:prompt_tokens_total {queried}\n"
        return asked + parts.format(host, in_host) + parts.format(external, beyond)

    told = figures(watch_of(text(0, 0, 0), text(100, 20, 5)))
    assert told["hit_rate_host"].value == 0.2
    assert told["hit_rate_external"].value == 0.05


def test_transfers_that_went_wrong_are_counted_together_and_the_first_of_a_kind_is_not_lost():
    text = "vllm:nixl_num_failed_transfers_total 2\n"
    late = text + "vllm:nixl_num_notifications_after_expiry_total 1\n"
    assert value_of("transfer_failures", text, text) == 0
    assert value_of("transfer_failures", text, late) == 1


def test_offload_is_bytes_a_second_both_ways():
    text = "vllm:kv_offload_load_bytes_total {}\nvllm:kv_offload_store_bytes_total {}\n"
    assert value_of("offload_bytes_per_s", text.format(0, 0), text.format(600, 1_400)) == 200
    assert value_of("offload_failures", text.format(0, 0), text.format(1, 1)) is None


def test_a_counter_that_began_anew_is_no_negative_figure():
    text = "vllm:generation_tokens_total {}\n"
    assert value_of("tokens_per_s", text.format(1_000), text.format(50)) == 5


def test_what_was_read_long_ago_tells_nothing_of_now():
    watch = watch_of("vllm:kv_cache_usage_perc 0.5\n")
    assert figures(watch, 5.0)["used"].value == 0.5
    old = figures(watch, 60.0)["used"]
    assert (old.value, old.certainty) == (None, "derived")


def test_a_real_server_tells_most_of_it():
    body = recorded_body().decode()
    told = figures(watch_of(body, body))
    known = {name for name, figure in told.items() if figure.certainty == "derived"}
    assert {"used", "ttft_p50_s", "itl_p99_s", "queue_p50_s", "running", "waiting_for_capacity", "hit_rate"} <= known
    assert "affinity_lost" not in known


def test_what_is_told_to_be_below_0_is_no_figure():
    told = figures(watch_of("vllm:num_requests_waiting -5\nvllm:num_requests_running 1\n"))
    assert (told["waiting"].value, told["waiting"].certainty, told["running"].value) == (None, "derived", 1.0)
