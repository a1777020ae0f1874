"""Verdicts on a router: it has no cache, so that nothing of one is asked of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kvxray_backend.analysis.verdict_of_router import RouterSigns, judge_router
from kvxray_backend.analysis.verdict_signs import Signs
from kvxray_backend.metrics.exposition import parse_page
from kvxray_backend.router_signals import router_signs
from kvxray_backend.sources.foreign.metrics_watch import MetricsWatch

WELL = RouterSigns(3, 1_000, 2, 4, 4, 0.2, 0.05)
READING = Signs("no_stream", {}, kind="metrics", metrics="reading")


def test_a_router_is_healthy_without_a_cache() -> None:
    found = judge_router(READING, WELL)
    assert (found.status, found.sentence) == ("healthy", "Healthy: 3 requests are under way, 4 engines are ready.")
    assert found.not_judged == ()


@pytest.mark.parametrize(
    ("changed", "rule", "status"),
    [
        ({"endpoints": 0}, "no_endpoint", "critical"),
        ({"errors_10m": 50}, "router_errors", "warning"),
        ({"subscribers": 3}, "index_deaf", "warning"),
        ({"behind_s": 10}, "index_behind", "warning"),
        ({"affinity_lost": 0.21}, "affinity_lost", "warning"),
    ],
)
def test_what_is_wrong_with_a_router_is_of_its_requests_and_its_index(
    changed: dict[str, Any], rule: str, status: str
) -> None:
    found = judge_router(READING, replace(WELL, **changed))
    assert (found.rule, found.status) == (rule, status)


@pytest.mark.parametrize(
    "changed",
    [
        {"errors_10m": 49},
        {"requests_10m": 8, "errors_10m": 4},
        {"subscribers": 0},
        {"behind_s": 9},
        {"endpoints": None},
    ],
)
def test_what_is_little_or_not_told_is_no_trouble(changed: dict[str, Any]) -> None:
    assert judge_router(READING, replace(WELL, **changed)).status == "healthy"


def test_a_router_that_tells_nothing_is_not_called_healthy() -> None:
    assert judge_router(READING, RouterSigns()).sentence == "Cannot tell, because its metrics tell of no requests."
    failing = replace(READING, metrics="failing")
    assert judge_router(failing, WELL).status == "cannot_tell"
    assert len(judge_router(READING, RouterSigns()).not_judged) == 4


def test_its_signs_are_read_from_its_metrics() -> None:
    watch = MetricsWatch("r")
    for at_s, requests, errors, messages in ((0.0, 100, 1, 0), (60.0, 200, 11, 600)):
        page = (
            f"llm_d_epp:request_total {requests}\n"
            f'llm_d_epp:request_error_total{{error_code="503"}} {errors}\n'
            f"llm_d_epp:ready_endpoints 3\nllm_d_epp:kv_cache_events_active_subscribers 2\n"
            f"llm_d_epp:kv_cache_events_pool_queue_depth 200\n"
            f'llm_d_epp:kv_cache_events_messages_received_total{{pod_identifier="a"}} {messages}\n'
        )
        watch.take(at_s, parse_page(page.encode()))
    told = router_signs(watch.book)
    assert (told.requests_10m, told.errors_10m, told.endpoints, told.subscribers) == (100, 10, 3, 2)
    assert told.behind_s == pytest.approx(20)
    assert told.affinity_lost is None
