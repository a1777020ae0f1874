"""Hours of traffic in seconds, through scheduler and pool as they are."""

from __future__ import annotations

import pytest
from kvxray_engine.baselines import Allocation
from kvxray_engine.cache_simulation import hit_ratio
from kvxray_engine.engine import EngineConfig
from kvxray_engine.trace_runner import TraceRunner
from kvxray_engine.traces import TraceRequest, read_trace

from tests.engine.test_traces import FIRST_600

SECOND = 1_000_000_000


def request(at_s: float, *segments: tuple[int, int], output: int = 4) -> TraceRequest:
    return TraceRequest(round(at_s * SECOND), segments, output)


def test_requests_come_when_the_trace_says() -> None:
    runner = TraceRunner([request(0, (1, 10)), request(3600, (2, 10))], 65, 4, step_ns=SECOND, token_ns=0)
    figures = runner.run()
    assert figures.duration_s == 3604.0
    assert figures.ttft_s == [1.0, 1.0]
    assert (figures.requests, figures.steps, figures.max_running) == (2, 8, 1)
    assert (figures.prompt_tokens, figures.output_tokens) == (20, 8)


def test_waiting_counts_from_the_arrival_in_the_trace() -> None:
    """The second comes in the middle of a step, and waits for its end."""
    runner = TraceRunner([request(0, (1, 10)), request(0.25, (2, 10))], 65, 4, step_ns=SECOND, token_ns=0)
    assert sorted(runner.run().ttft_s) == [1.0, 1.75]


def test_what_the_trace_shares_is_hit_in_whole_blocks() -> None:
    trace = [request(0, (1, 10), (2, 3)), request(60, (1, 10), (3, 3)), request(120, (4, 13))]
    figures = TraceRunner(trace, 65, 4).run()
    assert (figures.queried_tokens, figures.hit_tokens) == (39, 8)
    assert figures.hit_ratio == 8 / 39


def test_without_prefix_caching_nothing_is_asked() -> None:
    runner = TraceRunner([request(0, (1, 10))] * 2, 65, 4, EngineConfig(enable_prefix_caching=False))
    assert runner.run().hit_ratio is None


def test_a_request_that_can_never_fit_is_refused_and_the_rest_goes_on() -> None:
    figures = TraceRunner([request(0, (1, 100)), request(1, (2, 10))], 9, 4).run()
    assert (figures.requests, figures.refused) == (1, 1)


def test_nothing_to_replay_is_over_at_once() -> None:
    figures = TraceRunner([], 9, 4).run()
    assert (figures.requests, figures.steps, figures.duration_s, figures.waste_ratio) == (0, 0, 0.0, None)


def test_laws_hold_at_every_step_of_real_traffic_in_a_pool_too_small() -> None:
    trace = [
        TraceRequest(
            one.arrival_ns // 20, tuple((number, 32) for number, _ in one.segments), 1 + one.output_tokens // 8
        )
        for one in read_trace(FIRST_600, limit=40)
    ]
    runner = TraceRunner(trace, 600, 4, EngineConfig(max_num_seqs=16, max_num_batched_tokens=256))
    while runner.step():
        runner.engine.check_integrity()
    assert (runner.figures.requests, runner.figures.refused) == (38, 2)
    assert runner.figures.preemptions > 0
    assert runner.figures.hit_tokens > 0


@pytest.fixture(scope="module")
def first_200() -> list[TraceRequest]:
    return read_trace(FIRST_600, limit=200)


def replay(trace: list[TraceRequest], allocation: Allocation, share: bool = False) -> TraceRunner:
    config = EngineConfig(
        max_num_seqs=256, max_num_batched_tokens=8192, enable_prefix_caching=share, allocation=allocation
    )
    runner = TraceRunner(trace, 65537, 16, config)
    runner.run()
    runner.engine.check_integrity()
    assert (runner.figures.requests, runner.engine.pool.ref_sum) == (200, 0)
    return runner


def test_paging_wastes_less_and_serves_more_at_once_than_reservation(first_200: list[TraceRequest]) -> None:
    contiguous, buddy, paged = (
        replay(first_200, one).figures for one in (Allocation.contiguous, Allocation.buddy, Allocation.paged)
    )
    assert contiguous.waste_ratio is not None
    assert buddy.waste_ratio is not None
    assert paged.waste_ratio is not None
    assert contiguous.waste_ratio > 0.6 > 0.5 > buddy.waste_ratio > 0.04 > paged.waste_ratio > 0
    assert contiguous.max_running == 8
    assert paged.max_running > buddy.max_running > 4 * contiguous.max_running
    assert contiguous.duration_s > 2 * paged.duration_s


def test_a_pool_that_never_evicts_hits_what_an_endless_cache_does(first_200: list[TraceRequest]) -> None:
    trace = [TraceRequest(one.arrival_ns * 20, one.segments, 1) for one in first_200]
    runner = TraceRunner(trace, 20_000, 512, EngineConfig(max_num_batched_tokens=1 << 17))
    endless = hit_ratio(first_200)
    assert runner.run().hit_ratio == pytest.approx(endless, abs=0.001), (
        "but for the last block of a prompt, never whole"
    )
