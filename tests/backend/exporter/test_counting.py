"""Counters of several ranks as one: what restarts, comes late or goes never counts twice, and never takes back."""

from __future__ import annotations

import numpy as np
from kvxray_backend.exporter.counting import Counted, Counting, SteadyCount
from kvxray_backend.metrics.histograms import Buckets

INF = float("inf")


def told(**ranks):
    """Ranks that were seen from their beginning on; a pair: (told, what it had when first seen)."""
    return {name: Counted(*(value if isinstance(value, tuple) else (value, 0.0))) for name, value in ranks.items()}


def test_one_rank_is_told_as_it_tells_and_begins_anew_when_it_restarts():
    counting = Counting()
    assert [counting.look(told(a=value)) for value in (100.0, 150.0, 20.0, 30.0)] == [100, 150, 20, 30]


def test_of_two_ranks_one_that_restarts_takes_nothing_back():
    counting = Counting()
    assert counting.look(told(a=100.0, b=200.0)) == 300
    assert counting.look(told(a=5.0, b=210.0)) == 315
    assert counting.look(told(a=15.0, b=220.0)) == 335


def test_all_ranks_that_restart_together_are_a_restart():
    counting = Counting()
    counting.look(told(a=100.0, b=200.0))
    assert counting.look(told(a=5.0, b=6.0)) == 11


def test_a_rank_that_goes_stays_counted_and_one_that_comes_late_adds_only_what_it_counts_then():
    counting = Counting()
    counting.look(told(a=100.0, b=200.0))
    assert counting.look(told(a=110.0)) == 310
    assert counting.look(told(a=110.0, c=(5_000.0, 5_000.0))) == 310
    assert counting.look(told(a=110.0, c=(5_007.0, 5_000.0))) == 317


def test_a_metric_told_another_way_goes_on_from_where_it_was():
    counting = Counting()
    counting.look(told(old=100.0))
    assert counting.look(told(new=(40.0, 40.0))) == 100
    assert counting.look(told(new=(50.0, 40.0))) == 110


def buckets(*counts, bounds=(1.0, INF)):
    return Buckets(bounds, np.array(counts, np.float64), float(counts[-1]))


def test_histograms_count_the_same_way_and_none_is_told_where_buckets_differ():
    counting, none = Counting(), buckets(0, 0)
    counting.look({"a": Counted(buckets(1, 2), none), "b": Counted(buckets(3, 4), none)})
    now = counting.look({"a": Counted(buckets(0, 1), none), "b": Counted(buckets(3, 5), none)})
    assert now is not None
    assert now.counts.tolist() == [4, 8]
    odd = buckets(3, 4, bounds=(2.0, INF))
    assert Counting().look({"a": Counted(buckets(1, 2), none), "b": Counted(odd, odd)}) is None


def test_nobody_tells_is_no_number():
    assert Counting().look({}) is None


def test_a_stream_that_is_joined_anew_never_counts_backwards_and_a_new_life_begins_anew():
    count = SteadyCount()
    told = [(1, 10.0), (1, 100.0), (1, 0.0), (1, 7.0), (2, 3.0), (2, 4.0)]
    assert [count.look(*one) for one in told] == [10, 100, 100, 107, 3, 4]
