"""Public bug reports as small inputs: what their metrics steps must tell."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kvxray_backend.metrics.book import MetricsBook
from kvxray_backend.metrics.configuration_check import Traffic, check_block_size
from kvxray_backend.metrics.contradictions import contradictions
from kvxray_backend.metrics.hit_rates import hit_rate

from tests.backend.metrics.pages import DATA, page

CASES = {case["id"]: case for case in map(json.loads, (DATA / "cases_metrics.jsonl").read_text().splitlines())}
ANSWERED = {"series", "values", "hit_rate", "diagnosis", "rate_nonneg", "findings"}
WITH_METRICS = [case for case in CASES.values() if any("prom" in step for step in case["steps"])]


def answers(case: dict[str, Any]) -> dict[str, Any]:
    """What the metrics of a case tell, under the words that cases use; its pages come ten seconds apart."""
    book, findings, blocks = MetricsBook(), [], None
    for number, step in enumerate(case["steps"]):
        for event in step.get("ev", []):
            blocks = event.get("block_size", blocks)
        if "prom" in step and book.take(number * 10.0, page(step["prom"])) is not None:
            findings.append("counter_reset")
    rate = hit_rate(book, "prefix", None)
    reason = check_block_size(
        Traffic(queries=book.value("prefix_queries"), hits=book.value("prefix_hits"), block_size=blocks)
    )
    grown = book.grown("prefix_hits", 600)
    return {
        "findings": findings + [found.code for found in contradictions(book)],
        "hit_rate": rate.value if rate else None,
        "diagnosis": reason.code if reason else None,
        "rate_nonneg": grown is not None and grown.amount >= 0,
        "values": [value for _, value in book.course(case["expect"].get("series", "kv_usage"))],
        "series": case["expect"].get("series"),
    }


@pytest.mark.parametrize("case", WITH_METRICS, ids=lambda case: f"{case['id']}-{case['cls']}")
def test_metrics_of_a_reported_bug_are_read_right(case: dict[str, Any]) -> None:
    told = answers(case)
    assert case["expect"].keys() <= ANSWERED
    assert {key: told[key] for key in case["expect"]} == case["expect"]


def test_every_case_with_metrics_is_looked_at() -> None:
    assert [case["id"] for case in WITH_METRICS] == ["L04", "P02", "M01", "M03", "M05", "M08"]
