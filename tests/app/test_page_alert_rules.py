"""The rules of alerts in a real browser: they say how they stand, are switched off, tried on history and written."""

from __future__ import annotations

import pytest
from kvxray_app.components.alerts import EXAMPLE, SEVERITIES, STANDS
from kvxray_backend.alert_types import ServedView
from kvxray_backend.alerts.own_rules import rules_in

from tests.app.alerts_answers import rule, rules_answer, trial
from tests.app.alerts_page import Alerts

pytestmark = pytest.mark.browser


def test_rules_say_how_they_stand_for_each_engine_and_why(alerts: Alerts) -> None:
    served = [
        {"engine": "demo", "state": "firing", "why": ""},
        {"engine": "gpu-7", "state": "not_observable", "why": "It takes its metrics: attach them."},
        {"engine": "gpu-8", "state": "not_observable", "why": "It takes its metrics: attach them."},
    ]
    alerts.backend.answers["rules"] = rules_answer(rule(served=served), rule("KVStarved", topic="Room", is_on=False))
    alerts.open("?tab=rules")
    alerts.has("[data-rule=LeakNamed] .stands", "fires")
    assert alerts.names("[data-rule=LeakNamed] .stands li") == ["fires", "not observable · 2"]
    assert alerts.names("[data-rule=KVStarved] .stands li") == ["off"]
    assert alerts.names(".topic") == ["Blocks, by events", "Room"]
    alerts.page.evaluate("inside('alerts', '[data-rule=LeakNamed] .standing').focus()")
    assert "It takes its metrics: attach them." in alerts.page.evaluate("inside('alerts', '.kx-tip').innerText")
    alerts.press("[data-rule=LeakNamed] .fold")
    alerts.has(".served", "gpu-7")
    assert "It takes its metrics: attach them." in alerts.names(".served li")[1]


def test_a_rule_opens_into_its_runbook_and_its_address_is_the_runbooks(alerts: Alerts) -> None:
    alerts.open("?rule=LeakNamed")
    alerts.has(".runbook", "What to do")
    for title in ("It fires when", "Confirm it here", "On vLLM", "On SGLang", "What a simpler rule gets wrong"):
        assert title in alerts.names(".runbook h3")
    assert alerts.names(".runbook code") == ["leak", "vllm:kv_cache_usage_perc"]
    assert alerts.names(".runbook strong") == ["Block map"]
    alerts.press("[data-rule=LeakNamed] .fold")
    assert not alerts.shows(".runbook")
    alerts.page.go_back()
    alerts.page.wait_for_function("inside('alerts', '.runbook').checkVisibility()")


def test_a_rule_is_switched_off_and_a_refusal_is_said_beside_it(alerts: Alerts) -> None:
    alerts.open("?tab=rules")
    switch = "[data-rule=LeakNamed] .switch"
    alerts.press(switch)
    alerts.has("[data-rule=LeakNamed] .problem", "There is no such thing.")
    alerts.backend.answers["rules/LeakNamed"] = {}
    alerts.press(switch)
    alerts.has_sent(("PUT", "rules/LeakNamed", {"is_on": False}))
    alerts.backend.answers["rules"] = rules_answer(rule(is_on=False))
    alerts.page.wait_for_function("where => inside('alerts', where).ariaChecked === 'false'", arg=switch)
    assert "0 on" in alerts.text("#panel-rules .panel-head .muted")


def test_a_rule_is_tried_on_history_and_leads_to_the_moments(alerts: Alerts) -> None:
    alerts.backend.answers["rules/try"] = trial(25)
    alerts.open("?rule=LeakNamed")
    alerts.press(".runbook .stretches button:nth-child(2)")
    alerts.has(".runbook .result", "It would have fired 25 times in the last 7 days.")
    assert len(alerts.names(".runbook .would li")) == 20
    assert "5 earlier ones are not listed." in alerts.text(".runbook .trial")
    assert "demo: 50.0% of the time can be told. Its history begins in between." in alerts.text(".runbook .known-of")
    assert alerts.href(".runbook .would a") == f"{alerts.backend.url}/?source=demo&at=1.90"
    method, path, body = alerts.backend.sent[-1]
    assert (method, path, body["name"]) == ("POST", "rules/try", "LeakNamed")
    alerts.backend.refusals["rules/try"] = (400, {"error": "Nothing is stored of that time."})
    alerts.press(".runbook .stretches button:nth-child(3)")
    alerts.has(".runbook .result", "Nothing is stored of that time.")


def test_a_rule_of_ones_own_is_checked_tried_and_saved(alerts: Alerts) -> None:
    alerts.backend.answers["rules/try"] = trial(3)
    alerts.open("?tab=rules")
    alerts.press("#panel-rules .begin")
    assert alerts.page.evaluate("inside('alerts', 'textarea').value") == EXAMPLE
    refused = {"error": "Mend line 3, severity: it is info, warning or critical."}
    alerts.backend.refusals["rules"] = (400, refused)
    alerts.press(".own .main-button")
    alerts.has(".own .problem", refused["error"])
    marked = "(box => box.value.slice(box.selectionStart, box.selectionEnd))(inside('alerts', 'textarea'))"
    assert alerts.page.evaluate(marked) == "  severity: warning"
    alerts.press(".own .stretches button")
    alerts.has(".own .result", "It would have fired 3 times")
    assert alerts.backend.sent[-1][2]["text"] == EXAMPLE
    del alerts.backend.refusals["rules"]
    alerts.backend.answers["rules"] = rules_answer(rule(), rule("Mine", topic="Own", origin="page", text="rules: []"))
    alerts.press(".own .main-button")
    alerts.has("#panel-rules table", "written here")
    assert alerts.backend.sent[-1] == ("POST", "rules", {"text": EXAMPLE})
    assert not alerts.shows(".own")


def test_a_rule_of_ones_own_is_edited_and_removed_by_a_second_press(alerts: Alerts) -> None:
    mine = rule("Mine", topic="Own", origin="page", text="rules: []")
    alerts.backend.answers["rules"] = rules_answer(rule(), mine)
    alerts.open("?rule=Mine")
    alerts.press(".own-part button:first-child")
    assert alerts.page.evaluate("inside('alerts', 'textarea').value") == "rules: []"
    alerts.press(".own-part button:nth-child(2)")
    assert not alerts.backend.sent
    alerts.backend.answers["rules/Mine"] = {}
    alerts.backend.answers["rules"] = rules_answer(rule())
    alerts.press(".own-part button:nth-child(2)")
    alerts.page.wait_for_function("inside('alerts', '[data-rule=Mine]') === null")
    assert alerts.backend.sent[-1] == ("DELETE", "rules/Mine", None)


def test_rules_are_filtered_and_what_is_wrong_with_files_is_said(alerts: Alerts) -> None:
    problem = "Mend the file own.yaml: line 3."
    alerts.backend.answers["rules"] = rules_answer(rule(), rule("KVStarved", topic="Room"), problems=[problem])
    alerts.open("?tab=rules")
    alerts.has("#panel-rules .problems", problem)
    alerts.page.evaluate(
        "() => { const box = inside('alerts', '[type=search]'); box.value = 'starved'; "
        "box.dispatchEvent(new Event('input')); }"
    )
    assert alerts.names("#panel-rules .fold") == ["KVStarved"]
    assert "1 of 2 rules" in alerts.text("#panel-rules .panel-head .muted")


def test_words_cover_what_the_api_tells_and_the_example_is_a_rule() -> None:
    states = ServedView.model_json_schema()["properties"]["state"]["enum"]
    assert set(STANDS) == set(states)
    assert set(SEVERITIES) == {"info", "warning", "critical"}
    assert [rule.name for rule in rules_in(EXAMPLE.encode())] == ["CacheNearlyFull"]
