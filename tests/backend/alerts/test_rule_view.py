"""Rules as the page shows them."""

from __future__ import annotations

from kvxray_backend.alert_types import ServedView
from kvxray_backend.alerts.own_rules import rules_in
from kvxray_backend.alerts.rule_view import rule_view
from kvxray_backend.alerts.rules import RULES

_OWN = b"""
rules:
- name: HostTierFull
  severity: critical
  for: 10m
  sentence: The host's tier is full.
  do: [Give it more memory.]
  when:
  - {now: kv_usage_host, above: 0.95, clear: 0.9}
  - {finding: seq_gap, least: warning}
"""


def test_a_built_in_rule_is_told_whole() -> None:
    served = [ServedView(engine="a", state="firing", why="")]

    view = rule_view(RULES["KVStarved"], origin="built-in", is_on=True, served=served)

    assert (view.name, view.topic, view.severity) == ("KVStarved", "Room for requests", "warning")
    assert (view.for_s, view.keep_firing_s, view.needs) == (600, 0, "metrics of vLLM")
    assert view.when[1] == "`kv_usage` is above 0.9 (while it fires: 0.8)"
    assert view.do == list(RULES["KVStarved"].do)
    assert view.served == served


def test_a_rule_of_ones_own_has_its_own_topic_and_the_steps_of_its_file() -> None:
    (rule,) = rules_in(_OWN)

    view = rule_view(rule, origin="page", is_on=False, text=_OWN.decode())

    assert (view.topic, view.origin, view.is_on, view.text) == ("Own", "page", False, _OWN.decode())
    assert view.when == [
        "`kv_usage_host` is above 0.95 (while it fires: 0.9)",
        "a finding `seq_gap`, warning or graver, is open",
    ]
    assert (view.do, view.meaning, view.confirm, view.on_vllm) == (["Give it more memory."], "", [], [])
