"""A rule as the page shows it: its conditions and needs in words, its runbook, and how it stands for each engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kvxray_backend.alert_types import RuleOrigin, RuleView, ServedView
from kvxray_backend.alerts.rule import Rule
from kvxray_backend.alerts.rule_needs import needs_of
from kvxray_backend.alerts.rule_words import parts_of
from kvxray_backend.alerts.rules import TOPICS
from kvxray_backend.alerts.runbooks import runbook_of

OWN_TOPIC: Final = "Own"
_TOPIC_OF: Final = {rule.name: topic for topic, rules in TOPICS.items() for rule in rules}


def rule_view(
    rule: Rule, *, origin: RuleOrigin, is_on: bool, text: str = "", served: Sequence[ServedView] = ()
) -> RuleView:
    """text: its YAML where it was written on the page. served: how it stands for each engine."""
    runbook = runbook_of(rule.name)
    return RuleView(
        name=rule.name,
        topic=topic_of(rule.name),
        severity=rule.severity,
        sentence=rule.sentence,
        meaning=runbook.meaning,
        when=list(parts_of(rule.when)),
        for_s=rule.for_s,
        keep_firing_s=rule.keep_firing_s,
        needs=needs_of(rule),
        do=list(rule.do),
        confirm=list(runbook.confirm),
        on_vllm=list(runbook.on_vllm),
        on_sglang=list(runbook.on_sglang),
        trap=rule.trap,
        origin=origin,
        is_on=is_on,
        text=text,
        served=list(served),
    )


def topic_of(name: str) -> str:
    """The heading of a built-in rule; `Own` of any other."""
    return _TOPIC_OF.get(name, OWN_TOPIC)
