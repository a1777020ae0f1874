"""The rules that a Prometheus can tell alone, as its rule file; and the names of those that only kvxray can."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import yaml

from kvxray_backend.alerts.promql import FLEET_LABELS, PromQL, engine_labels, recorded_name
from kvxray_backend.alerts.rule import Rule
from kvxray_backend.metrics.names import FAMILIES, Family
from kvxray_backend.quantities import age_text

RECORD_EVERY_S: Final = 30
_HEAD: Final = """\
# Alert rules for Prometheus, made by `kvxray alerts rules`. What each means and what to do: docs/rules.
# An engine is told by these labels ({labels}); its role by `role`, which your relabelling must give.
"""


def expression(rule: Rule, family: Family) -> str:
    """Where the rule has two thresholds the second holds while it fires already."""
    begins = PromQL(family, rule.is_of_fleet).condition(rule.when)
    if not rule.has_hysteresis:
        return begins
    goes_on = PromQL(family, rule.is_of_fleet, is_firing=True).condition(rule.when)
    labels = FLEET_LABELS if rule.is_of_fleet else engine_labels(family)
    firing = f'ALERTS{{alertname="{rule.name}",alertstate="firing"}}'
    return f"({begins})\nor\n(({goes_on})\nand on ({','.join(labels)}) {firing})"


def rule_file(rules: Iterable[Rule], families: Sequence[Family] = FAMILIES) -> str:
    """YAML. `promtool check rules` takes it."""
    listed = [*rules]
    groups = [group for family in families for group in _groups(listed, family)]
    told = [family for family in families if any(family in rule.families for rule in listed)]
    labels = "; ".join(f"{family}: {', '.join(engine_labels(family))}" for family in told)
    text: str = yaml.dump({"groups": groups}, Dumper=_Dumper, sort_keys=False, width=1_000_000, allow_unicode=True)
    return _HEAD.format(labels=labels) + _only_here(listed) + text


def _only_here(rules: Iterable[Rule]) -> str:
    names = [rule.name for rule in rules if not rule.is_of_metrics]
    return f"# Only kvxray can tell, since events are needed: {', '.join(names)}.\n" if names else ""


def _groups(rules: Sequence[Rule], family: Family) -> Iterator[dict[str, Any]]:
    ours = [rule for rule in rules if family in rule.families]
    recorded = dict.fromkeys(one for rule in ours for one in rule.recorded())
    if recorded:
        yield {
            "name": f"kvxray.{family}.record",
            "interval": age_text(RECORD_EVERY_S),
            "rules": [{"record": recorded_name(family, one), "expr": PromQL(family).made(one)} for one in recorded],
        }
    if ours:
        yield {"name": f"kvxray.{family}", "rules": [_alert(rule, family) for rule in ours]}


def _alert(rule: Rule, family: Family) -> dict[str, Any]:
    alert: dict[str, Any] = {"alert": rule.name, "expr": expression(rule, family)}
    if rule.for_s:
        alert["for"] = age_text(rule.for_s)
    if rule.keep_firing_s:
        alert["keep_firing_for"] = age_text(rule.keep_firing_s)
    return {**alert, "labels": {"severity": rule.severity, "make": family}, "annotations": annotations_of(rule)}


def annotations_of(rule: Rule) -> dict[str, str]:
    return {"summary": rule.sentence, "description": " ".join(rule.do)}


class _Dumper(yaml.SafeDumper):  # type: ignore[misc]
    """Expressions of several lines as such."""


def _text(dumper: Any, value: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)
