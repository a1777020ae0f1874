"""The cases that Prometheus is tested by, through kvxray's own evaluation: one definition, one answer."""

from __future__ import annotations

import pytest
from kvxray_backend.alerts.rule_watch import RuleWatch
from kvxray_backend.alerts.rules import RULES

from tests.backend.alerts.prometheus_cases import Case, read_cases
from tests.backend.alerts.told import T0_S, Engine

CASES = read_cases()


def fires(case: Case) -> bool:
    """A page a minute, a look after each, up to when the case asks."""
    engines = {name: Engine(name) for name in case.instances}
    fleets = {
        case.role(name): [other for name_, other in engines.items() if case.role(name_) == case.role(name)]
        for name in engines
    }
    rule = RULES[case.alert]
    groups = [*fleets.values()] if rule.is_of_fleet else [[engine] for engine in engines.values()]
    watches = [RuleWatch(rule) for _ in groups]
    for minute in range(case.at_s // 60 + 1):
        at_s = T0_S + minute * 60
        for name, engine in engines.items():
            samples = case.samples(minute, name)
            is_up = [one.value for one in samples if one.name == "up"] != [0.0]
            if is_up:
                engine.page(at_s, samples)
                engine.started_s = None if engine.started_s is None else at_the_time(engine.started_s)
        for watch, group in zip(watches, groups, strict=True):
            watch.look([engine.evidence() for engine in group], at_s)
    return any(watch.alert.is_firing for watch in watches)


def at_the_time(started_s: float) -> float:
    """Cases count from 0."""
    return started_s if started_s >= T0_S else T0_S + started_s


@pytest.mark.parametrize("case", CASES, ids=[f"{case.number}-{case.alert}" for case in CASES])
def test_a_case_is_answered_as_in_a_prometheus(case):
    assert fires(case) == case.fires


def test_every_rule_over_metrics_has_a_case_that_fires_and_one_that_does_not():
    for rule in RULES.values():
        if rule.is_of_metrics:
            assert {case.fires for case in CASES if case.alert == rule.name} == {True, False}, rule.name
