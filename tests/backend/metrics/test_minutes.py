"""Stretches of signals: what one reading told, added up to minutes, packed and read again, and divided."""

from __future__ import annotations

from math import inf, isnan

import pytest
from kvxray_backend.metrics.minute import Counted, Spread, Stood, Stretch, latest, quantile, together
from kvxray_backend.metrics.minute_packing import MAX_PARTS, pack, unpack
from kvxray_backend.metrics.ratios import RATIOS, ratio
from kvxray_backend.metrics.signals import SIGNALS

from tests.backend.metrics.pages import book_of, recorded_body
from tests.backend.metrics.test_series import ttft


def test_a_reading_tells_how_gauges_stand_and_what_counters_grew_by():
    text = "vllm:kv_cache_usage_perc {}\nvllm:num_preemptions_total {}\n"
    told = latest(book_of(text.format(0.25, 5), text.format(0.5, 9))).told
    assert told == {("kv_usage", ""): Stood(0.5, 0.5, 0.5), ("preemptions", ""): Counted(4, 10)}


def test_what_was_told_once_grew_by_nothing_that_is_known():
    assert latest(book_of("vllm:num_preemptions_total 5\n")).told == {}


def test_what_the_last_page_does_not_tell_is_not_told():
    assert latest(book_of("vllm:kv_cache_usage_perc 0.5\n", "vllm:num_requests_running 1\n")).told == {
        ("requests_running", ""): Stood(1, 1, 1)
    }


def test_a_reset_counts_from_0_and_is_never_negative():
    text = "vllm:num_preemptions_total {}\n"
    assert latest(book_of(text.format(50), text.format(3))).told == {("preemptions", ""): Counted(3, 10)}


def test_engines_are_put_together_as_the_table_says():
    text = 'vllm:kv_cache_usage_perc{{engine="0"}} {}\nvllm:kv_cache_usage_perc{{engine="1"}} {}\n'
    text += 'vllm:num_requests_running{{engine="0"}} {}\nvllm:num_requests_running{{engine="1"}} {}\n'
    told = latest(book_of(text.format(0.1, 0.9, 3, 4))).told
    assert told[("kv_usage", "")] == Stood(0.9, 0.9, 0.9)
    assert told[("requests_running", "")] == Stood(7, 7, 7)


def test_a_histogram_tells_what_fell_between_which_bounds():
    spread = latest(book_of(ttft(0, 1, 1, 1), ttft(4, 5, 5, 6))).told[("ttft", "")]
    assert spread == Spread(10, 5, {(0.0, 0.1): 4.0, (10.0, inf): 1.0})
    assert quantile(spread, 0.5) == pytest.approx(0.0625)
    assert quantile(spread, 0.99) == 10


def test_a_quantile_of_nothing_is_none():
    assert quantile(Spread(60, 0.0, {}), 0.5) is None


def test_stretches_add_up():
    minute = Stretch()
    for usage, grown in ((0.2, 1), (0.8, 2), (0.5, 3)):
        told = {("kv_usage", ""): Stood(usage, usage, usage), ("preemptions", ""): Counted(grown, 10)}
        minute.add(Stretch({**told, ("ttft", ""): Spread(10, 1.0, {(0.0, 0.1): grown})}))
    usage = minute.told[("kv_usage", "")]
    assert (usage.mean, usage.lowest, usage.highest) == (pytest.approx(0.5), 0.2, 0.8)
    assert minute.told[("preemptions", "")] == Counted(6, 30)
    assert minute.told[("ttft", "")] == Spread(30, 3.0, {(0.0, 0.1): 6})


def test_adding_changes_nothing_of_what_was_added():
    first, later = Stretch({("preemptions", ""): Counted(1, 10)}), Stretch({("preemptions", ""): Counted(2, 10)})
    whole = Stretch()
    whole.add(first)
    whole.add(later)
    assert (first.told, later.told) == ({("preemptions", ""): Counted(1, 10)}, {("preemptions", ""): Counted(2, 10)})


def test_histograms_of_other_buckets_add_up():
    whole = together("ttft", [Spread(60, 1, {(0.0, 1.0): 2}), Spread(60, 2, {(0.0, 0.5): 1, (0.5, 1.0): 1})])
    assert whole == Spread(60, 3, {(0.0, 1.0): 2, (0.0, 0.5): 1, (0.5, 1.0): 1})


def test_parts_that_sum_are_a_whole():
    stretch = Stretch({("requests_finished", "stop"): Counted(3, 10), ("requests_finished", "abort"): Counted(1, 10)})
    assert stretch.whole("requests_finished") == Counted(4, 10)
    assert stretch.whole("preemptions") is None


def test_what_a_real_server_tells_is_packed_and_read_again():
    body = recorded_body().decode()
    stretch = latest(book_of(body, body))
    assert len(stretch.told) > 40
    packed = pack(stretch)
    assert unpack(packed).told == stretch.told
    assert len(packed) < 1_200


def test_a_sum_that_was_not_told_stays_untold():
    read = unpack(pack(Stretch({("ttft", ""): Spread(10, float("nan"), {(0.0, 0.1): 1})})))
    assert isnan(read.told[("ttft", "")].total)
    assert read.told[("ttft", "")].mean is None


def test_many_parts_are_kept_as_a_whole():
    parts = {("index_messages", f"pod-{number}"): Counted(2, 10) for number in range(MAX_PARTS + 1)}
    read = unpack(pack(Stretch({**parts, ("preemptions", ""): Counted(1, 10)})))
    assert read.told == {("index_messages", ""): Counted(2 * MAX_PARTS + 2, 10), ("preemptions", ""): Counted(1, 10)}


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"\xff",
        b"\x92\x01",
        pack(Stretch()) + b"x",
        b"\x92\x02\x90",
        b"\x92\x01\x91\x93\x01\xa1a\x09",
        b"\x93\x01\x90\x90",
    ],
)
def test_what_cannot_be_read_tells_nothing(damaged):
    assert unpack(damaged).told == {}


def test_a_ratio_is_of_signals_that_there_are():
    for found in RATIOS.values():
        assert {found.above, found.below} <= SIGNALS.keys()
    assert not RATIOS.keys() & SIGNALS.keys()


def test_a_ratio_whose_divisor_did_not_grow_is_no_data():
    hit = RATIOS["hit_rate"]
    assert ratio(hit, Stretch()) is None
    assert ratio(hit, Stretch({("prefix_hits", ""): Counted(3, 10)})) is None
    both = {("prefix_hits", ""): Counted(0, 10), ("prefix_queries", ""): Counted(0, 10)}
    assert ratio(hit, Stretch(both)) is None
    assert ratio(hit, Stretch({**both, ("prefix_queries", ""): Counted(8, 10)})) == 0


def test_lost_affinity_is_what_the_best_engine_had_and_the_chosen_one_had_not():
    names = ("prefix_predicted_cached_tokens", "prefix_best_available_cached_tokens")

    def text(*sums: float) -> str:
        lines = []
        for name, total in zip(names, sums, strict=True):
            series = f"llm_d_epp_{name}"
            lines += [f'{series}_bucket{{le="+Inf"}} {total}', f"{series}_sum {total}", f"{series}_count {total}"]
        return "\n".join(lines) + "\n"

    assert ratio(RATIOS["affinity_lost"], latest(book_of(text(0, 0), text(30, 40)))) == 0.25


def test_a_router_tells_what_it_does_by_its_names_of_today_and_before():
    old = "kvcache_index_lookup_hits_total 5\nkvcache_index_lookup_requests_total 2\ninference_model_request_total 7\n"
    new = old.replace("kvcache_index", "llm_d_epp_kv_cache_index").replace("inference_model_", "llm_d_epp_")
    for text in (old, new, old + new):
        book = book_of(text)
        assert [book.value(name) for name in ("index_hits", "index_lookups", "router_requests")] == [5, 2, 7]
        assert book.families == ("router",)
