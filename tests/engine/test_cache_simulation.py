"""What a prefix cache could hit at best."""

from __future__ import annotations

import pytest
from kvxray_engine.cache_simulation import hit_ratio
from kvxray_engine.traces import TraceRequest, read_trace

from tests.engine.test_traces import FIRST_600


def prompt(*numbers: int) -> TraceRequest:
    return TraceRequest(0, tuple((number, 10) for number in numbers), 1)


def test_an_endless_cache_hits_every_prefix_seen_before() -> None:
    assert hit_ratio([prompt(1, 2), prompt(1, 2), prompt(1, 3), prompt(2)]) == (20 + 10) / 70


def test_a_block_counts_only_after_the_same_beginning() -> None:
    assert hit_ratio([prompt(1, 2), prompt(3, 2)]) == 0


def test_a_small_cache_forgets_the_end_of_a_chain_first() -> None:
    trace = [prompt(1, 2, 3), prompt(9), prompt(1, 2)]
    assert hit_ratio(trace, capacity=3) == 20 / 60
    assert hit_ratio(trace, capacity=1) == 0


def test_nothing_asked_is_nothing_hit() -> None:
    assert hit_ratio([]) == 0


def test_real_traffic_hits_more_the_more_is_kept() -> None:
    trace = read_trace(FIRST_600)
    ratios = [round(hit_ratio(trace, blocks), 4) for blocks in (100, 1000, 5000, None)]
    assert ratios == [0.037, 0.0394, 0.0915, 0.1716]


@pytest.mark.parametrize("capacity", [1, 3, 1000])
def test_the_most_recent_prompt_hits_as_far_as_it_was_kept(capacity: int) -> None:
    trace = [prompt(1, 2, 3)] * 2
    assert hit_ratio(trace, capacity) == min(3, capacity) * 10 / 60
