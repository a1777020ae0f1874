"""Rules over findings: each fires for what it is about, and keeps silent for what looks like it."""

from __future__ import annotations

import pytest
from kvxray_backend.alerts.rule_watch import RuleWatch
from kvxray_backend.alerts.rules import RULES
from kvxray_backend.analysis.finding import Finding

from tests.backend.alerts.told import T0_S, Engine

STEP_S = 30


def finding(kind, severity="warning", id="", ended_after_s=None):
    found = Finding(
        id=id or f"{kind}:a:1:0", kind=kind, severity=severity, source="a", epoch=1, seq0=0, seq1=0,
        time_ns=int(T0_S * 1e9), sentence="Something is so.",
    )  # fmt: skip
    return found if ended_after_s is None else found.ended(found.time_ns + int(ended_after_s * 1e9))


def state(name, findings, after_s):
    engine, watch = Engine(), RuleWatch(RULES[name])
    for at_s in range(0, after_s + 1, STEP_S):
        engine.findings = findings
        watch.look([engine.evidence()], T0_S + at_s)
    return watch.alert


FIRES = [
    ("StreamStale", finding("stale"), 0),
    ("StreamStale", finding("stale_stream"), 0),
    ("ReplayGap", finding("seq_gap"), 60),
    ("ReplayGap", finding("gap"), 60),
    ("ReplayGap", finding("gap", ended_after_s=1), 60),
    ("EventsUnreadable", finding("unknown_or_partial_event", ended_after_s=0), 300),
    ("EventsDropped", finding("drops"), 0),
    ("EventsNotStored", finding("storage", "critical"), 60),
    ("LeakNamed", finding("leak"), 0),
    ("PinNeverReleased", finding("stuck_pin"), 0),
    ("StaleHash", finding("stale_hash", "critical", ended_after_s=0), 600),
    ("StaleHash", finding("stale_hit", "critical", ended_after_s=0), 600),
    ("EvictionRegret", finding("thrash"), 600),
    ("RequestNeverGetsOn", finding("preemption_loop"), 0),
    ("AdmissionStuck", finding("admission_stuck", "critical"), 0),
    ("AuditResidual", finding("audit", "critical"), 0),
    ("AuditResidual", finding("ref_mismatch", "critical"), 0),
    ("AuditResidual", finding("double_free", "critical", ended_after_s=0), 600),
    ("OverCapacity", finding("resident_over_capacity"), 300),
    ("CrossTenantHit", finding("hash_namespace_collision", ended_after_s=0), 60),
    ("CrossTenantHit", finding("cross_tenant_prefix", "critical", ended_after_s=0), 600),
    ("SeedMismatch", finding("hash_seed_mismatch"), 300),
    ("PrefixCachingOff", finding("config", id="config:a:0:prefix_caching_off"), 300),
    ("MetricsContradiction", finding("metrics_contradiction"), 300),
    ("MetricsContradiction", finding("conservation_violation", "critical"), 300),
]
SILENT = [
    ("StreamStale", finding("stale_stream", "info"), 600),
    ("ReplayGap", finding("seq_gap"), 30),
    ("ReplayGap", finding("seq_gap", ended_after_s=20), 600),
    ("ReplayGap", finding("gap", ended_after_s=1), 1_500),
    ("EventsUnreadable", finding("malformed", ended_after_s=0), 300),
    ("EventsUnreadable", finding("unknown_or_partial_event", "info", ended_after_s=0), 300),
    ("EventsUnreadable", finding("unknown_or_partial_event", ended_after_s=0), 1_230),
    ("PinNeverReleased", finding("stuck_pin", ended_after_s=0), 600),
    ("StaleHash", finding("audit", "critical"), 60),
    ("EvictionRegret", finding("thrash"), 570),
    ("EvictionRegret", finding("thrash", "info"), 1_200),
    ("RequestNeverGetsOn", finding("preemption_loop", ended_after_s=0), 60),
    ("AdmissionStuck", finding("leak"), 60),
    ("EventsDropped", finding("gap"), 600),
    ("EventsNotStored", finding("storage", "critical"), 30),
    ("LeakNamed", finding("leak", ended_after_s=0), 600),
    ("AuditResidual", finding("double_free", "critical", ended_after_s=0), 960),
    ("OverCapacity", finding("duplicate_store"), 600),
    ("CrossTenantHit", finding("duplicate_store"), 600),
    ("CrossTenantHit", finding("cross_tenant_prefix", "critical", ended_after_s=0), 960),
    ("SeedMismatch", finding("hash_seed_mismatch"), 270),
    ("PrefixCachingOff", finding("config", "info", id="config:a:0:mamba_align"), 600),
    ("MetricsContradiction", finding("hit_rate_suspect", "info"), 600),
]


@pytest.mark.parametrize(("name", "found", "after_s"), FIRES, ids=lambda one: getattr(one, "kind", one))
def test_it_fires(name, found, after_s):
    assert state(name, (found,), after_s).is_firing


@pytest.mark.parametrize(("name", "found", "after_s"), SILENT, ids=lambda one: getattr(one, "kind", one))
def test_it_keeps_silent(name, found, after_s):
    assert not state(name, (found,), after_s).is_firing


def test_every_rule_that_needs_events_is_among_both():
    names = {rule.name for rule in RULES.values() if not rule.is_of_metrics}
    assert {name for name, _, _ in FIRES} == names
    assert {name for name, _, _ in SILENT} == names


def test_where_nobody_looks_for_findings_nobody_can_tell():
    unknown = state("LeakNamed", None, 60)
    assert not unknown.is_firing
    assert unknown.unknown_since_s == T0_S
    assert state("LeakNamed", (), 60).unknown_since_s is None


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_a_rule_is_served_by_who_tells_all_that_it_needs(rule):
    rule.check_integrity()
    assert rule.do
    assert rule.trap
    assert rule.sentence.endswith(".")
