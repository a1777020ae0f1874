"""The rule file for Prometheus: its own tools take it, and every rule in it fires and keeps silent where it must."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from kvxray_backend.alerts.prometheus_rules import annotations_of, rule_file
from kvxray_backend.alerts.rules import RULES
from kvxray_backend.metrics.names import canonical
from kvxray_backend.metrics.signals import metric_kinds

from tests.backend.alerts.prometheus_cases import CASES
from tests.backend.alerts.promtool import run_promtool

DATA = CASES.parents[1]
FILE = rule_file(RULES.values())


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = tmp_path / "rules.yml"
    path.write_text(FILE)
    return path


def test_promtool_takes_the_file(written):
    checked = run_promtool("check", "rules", written)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def cases_by_alert() -> dict[str, list[Any]]:
    """Rules are tested one at a time: together each would be evaluated in the cases of all."""
    found: dict[str, list[Any]] = {}
    for test in yaml.safe_load(CASES.read_text())["tests"]:
        found.setdefault(test["alert_rule_test"][0]["alertname"], []).append(test)
    return found


@pytest.mark.parametrize("name", [rule.name for rule in RULES.values() if rule.is_of_metrics])
def test_a_rule_fires_and_keeps_silent_in_a_prometheus_as_its_cases_say(tmp_path, name):
    (tmp_path / "rules.yml").write_text(rule_file([RULES[name]]))
    tests = cases_by_alert()[name]
    expected = [asked["exp_alerts"] for test in tests for asked in test["alert_rule_test"]]
    assert any(expected), "a case must fire"
    assert not all(expected), "a case must not fire"
    for alerts in expected:
        for alert in alerts:
            alert["exp_annotations"] = annotations_of(RULES[name])
            alert["exp_labels"]["make"] = RULES[name].families[0]
    cases = {"rule_files": ["rules.yml"], "evaluation_interval": "30s", "tests": tests}
    (tmp_path / "rules.test.yml").write_text(yaml.safe_dump(cases))
    tested = run_promtool("test", "rules", tmp_path / "rules.test.yml")
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_every_metric_in_it_is_one_that_a_make_tells():
    told = {rule["expr"] for group in yaml.safe_load(FILE)["groups"] for rule in group["rules"]}
    names = {
        name
        for expression in told
        for name in re.findall(r"\b[a-z_]+:[a-z_0-9]+|\b(?:trtllm|llm_d_epp)_\w+", expression)
    }
    kinds = metric_kinds()
    for name in names - {name for name in names if name.startswith("kvxray:")}:
        known = canonical(name)
        assert known is not None
        kind = kinds.get(re.sub(r"_(total|count|sum)$", "", known)) or kinds.get(known)
        assert kind, f"{name} is no metric of any signal"
        assert (kind == "counter") == (name.endswith("_total") and kinds.get(known) is None), name


def test_names_of_a_recorded_server_are_spelled_as_it_spells_them():
    page = gzip.decompress((DATA / "metrics" / "server-vllm-0.32.0.metrics.txt.gz").read_bytes()).decode()
    told = set(re.findall(r"^vllm:\w+", page, re.M))
    asked = {
        "vllm:num_preemptions_total", "vllm:request_success_total", "vllm:prefix_cache_hits_total",
        "vllm:prefix_cache_queries_total", "vllm:num_requests_running", "vllm:num_requests_waiting",
        "vllm:num_requests_waiting_by_reason", "vllm:kv_cache_usage_perc", "vllm:iteration_tokens_total_count",
        "vllm:external_prefix_cache_hits_total", "vllm:request_prefill_time_seconds_sum",
        "vllm:request_prefill_kv_computed_tokens_sum", "vllm:engine_sleep_state",
    }  # fmt: skip
    assert asked <= told
    assert asked <= set(re.findall(r"vllm:\w+", FILE))


def test_rules_that_need_events_are_named_and_not_in_it():
    inside = {rule.get("alert") for group in yaml.safe_load(FILE)["groups"] for rule in group["rules"]}
    for rule in RULES.values():
        assert (rule.name in inside) == rule.is_of_metrics
        assert rule.name in FILE


def test_what_is_recorded_is_recorded_before_it_is_asked_for():
    groups = yaml.safe_load(FILE)["groups"]
    recorded = {rule["record"] for group in groups for rule in group["rules"] if "record" in rule}
    asked = set(re.findall(r"kvxray:\w+:\w+", FILE))
    assert asked == recorded
