"""A real Prometheus scrapes a real kvxray that follows an engine of ours and a recorded vLLM."""

from __future__ import annotations

import re

import pytest
from kvxray_backend.alerts.prometheus_rules import rule_file
from kvxray_backend.alerts.rules import RULES
from kvxray_backend.exporter.dashboard import dashboard, expressions
from kvxray_backend.exporter.figure_metrics import FIGURE_METRICS

from tests.backend.exporter.listening import listening
from tests.backend.exporter.prometheus_server import prometheus
from tests.backend.exporter.test_dashboard import filled_in
from tests.backend.served import source_of, until
from tests.backend.small_engine import SmallEngine
from tests.e2e.recorded_engine import BEFORE_RESET, recorded_engine

TOKEN = "a-token-for-prometheus"
CACHED = 22
"""Blocks of the recorded vLLM before it was reset."""
AT_REST = (
    "used", "cached", "shared", "unknown", "leaked", "leaked_only", "leaking_holders", "running", "waiting",
    "cached_blocks", "cached_tokens", "cached_share", "capacity_blocks", "used_host", "affinity_lost",
    "internal_fragmentation",
)  # fmt: skip
"""Figures that do not move while nothing happens."""
LABELS = {"cluster": "c", "namespace": "prod", "pod": "vllm-0"}


@pytest.fixture(scope="module")
def scraped(tmp_path_factory):
    """Both at rest, so that what was scraped is what is told now."""
    folder = tmp_path_factory.mktemp("scraped")
    (folder / "token").write_text(TOKEN)
    every_second = re.sub(r"interval: \w+", "interval: 1s", rule_file(RULES.values()))
    (folder / "rules.yml").write_text(every_second)
    with SmallEngine(leak=True) as ours, recorded_engine() as vllm:
        watched = {
            "name": "vllm", "make": "vllm", "events": vllm.events, "replay": vllm.replay, "metrics": vllm.metrics,
            "every_s": 1.0, "labels": LABELS,
        }  # fmt: skip
        settings = {"engines": [watched], "token": TOKEN, "base_path": "/kv"}
        with listening(folder / "kvxray", source_of(ours), **settings) as kvxray:
            ours.work(300)
            ours.finish()
            vllm.rig.wait_for_subscriber()
            vllm.go_on(BEFORE_RESET)
            until(lambda: _cached(kvxray.http) == CACHED)
            job = {
                "metrics_path": "/kv/metrics", "honor_labels": True,
                "static_configs": [{"targets": [f"127.0.0.1:{kvxray.port}"]}],
                "authorization": {"credentials_file": str(folder / "token")},
            }  # fmt: skip
            with prometheus(folder, job, folder / "rules.yml") as server:
                until(lambda: server.values('kvxray_engine_kv_usage_ratio{engine="vllm"}'))
                yield server, kvxray.http


def _cached(http):
    lines = {line["name"]: line for line in http.get("/kv/api/engines").json()["engines"]}
    return lines["vllm"]["figures"]["cached_blocks"]["value"]


def test_it_is_scraped_without_a_word(scraped):
    server, _ = scraped
    (target,) = server.get("targets", state="active")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")


def test_series_are_what_the_overview_tells(scraped):
    server, http = scraped

    def differing():
        views = {view["engine"]: view for view in http.get("/kv/api/overview").json()["engines"]}
        found = []
        for name in AT_REST:
            told = server.values(FIGURE_METRICS[name].name)
            for engine, view in views.items():
                shown = view["figures"].get(name, {}).get("value")
                (value,) = [v for labels, v in told.items() if ("engine", engine) in labels] or [None]
                if shown != value:
                    found.append((engine, name, shown, value))
        return found

    last = []

    def agree():
        last[:] = differing()
        return not last

    try:
        until(agree, 30)
    except AssertionError:
        pytest.fail(f"engine, figure, shown, scraped: {last}")
    assert server.values("kvxray_leaked_blocks"), "and they are there"


def test_labels_of_the_engine_are_its_own(scraped):
    server, _ = scraped
    (labels,) = server.values('kvxray_engine_kv_usage_ratio{engine="vllm"}')
    assert LABELS.items() <= dict(labels).items()
    assert ("exported_namespace", "prod") not in labels


def test_counters_and_histograms_are_what_the_engine_tells(scraped):
    server, http = scraped
    told = {
        one["name"]: one
        for topic in http.get("/kv/api/signals?engine=vllm").json()["topics"]
        for one in topic["signals"]
    }
    (queries,) = server.values("kvxray_engine_prefix_queries_tokens_total").values()
    assert queries == told["prefix_queries"]["value"] > 0
    parts = {
        dict(labels)["part"]: value for labels, value in server.values("kvxray_engine_requests_finished_total").items()
    }
    assert parts == {part["labels"]["finished_reason"]: part["value"] for part in told["requests_finished"]["parts"]}
    (count,) = server.values("kvxray_engine_ttft_seconds_count").values()
    (most,) = server.values('kvxray_engine_ttft_seconds_bucket{le="+Inf"}').values()
    assert count == most > 0
    assert server.values("histogram_quantile(0.5, kvxray_engine_ttft_seconds_bucket)")


def test_every_question_of_the_dashboard_is_answered(scraped):
    server, _ = scraped
    assert not [expr for expr in expressions(dashboard()) if server.get("query", query=filled_in(expr)) is None]
    assert server.values(filled_in('sum by (engine) (kvxray_used_ratio{engine=~"$engine",namespace=~"$namespace"})'))


def test_our_rules_are_evaluated_without_an_error(scraped):
    server, _ = scraped

    def groups():
        return server.get("rules")["groups"]

    until(lambda: all(rule["lastEvaluation"] > "0002" for group in groups() for rule in group["rules"]))
    rules = [rule for group in groups() for rule in group["rules"]]
    assert not [(rule["name"], rule["lastError"]) for rule in rules if rule["health"] != "ok"]
    assert {rule["name"] for rule in rules} >= {rule.name for rule in RULES.values() if rule.is_of_metrics}


def test_metadata_says_what_each_metric_is(scraped):
    server, _ = scraped
    told = server.get("metadata", metric="kvxray_used_ratio")["kvxray_used_ratio"]
    assert told[0]["type"] == "gauge"
    assert told[0]["help"].startswith("Blocks that requests hold")
