"""The alerts in a real browser: what fires says whose fault it is and who was told; what is over is kept; rules say how
they stand, and are tried on history.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kvxray_app.components.alerts import EXAMPLE, SEVERITIES, STANDS, alerts_words
from kvxray_backend.alert_types import ServedView
from kvxray_backend.alerts.own_rules import rules_in
from playwright.sync_api import Page
from streamlit.testing.v1 import AppTest

from tests.app.alerts_answers import (
    LOOKED,
    alert,
    alerts_answer,
    finding,
    mute,
    rule,
    rules_answer,
    target,
    told,
    trial,
    view,
)
from tests.app.fleet_answers import fleet_answer, fleet_engine
from tests.app.scripted_backend import ScriptedBackend
from tests.app.test_page_residency_axe import assert_accessible, turn_to

pytestmark = pytest.mark.browser

Mount = Callable[..., None]
EVIL = "<img src=x onerror=alert(1)>"


class Alerts:
    """The component on a bare page, and what a reader does with it."""

    def __init__(self, page: Page, backend: ScriptedBackend, mount: Mount) -> None:
        self.page, self.backend, self.mount = page, backend, mount
        backend.answers["engines"] = fleet_answer(fleet_engine("demo"), fleet_engine("gpu-7"))
        backend.answers["rules"] = rules_answer(rule())
        self.fire()

    def fire(self, *alerts: dict[str, Any], **changed: Any) -> None:
        self.backend.answers["alerts"] = alerts_answer(*alerts, **changed)

    def open(self, query: str = "") -> None:
        if query:
            self.page.goto(f"{self.backend.url}/{query}")
            self.page.wait_for_function("window.ready")
        self.mount("alerts", wait=False, alerts=alerts_words())
        self.page.wait_for_function("!inside('alerts', '.body').hidden")

    def text(self, selector: str) -> str:
        found: str = self.page.evaluate("where => inside('alerts', where).innerText.trim()", selector)
        return found

    def has(self, selector: str, text: str) -> None:
        """Waits until it says so."""
        said = "([where, text]) => inside('alerts', where)?.innerText.includes(text)"
        self.page.wait_for_function(said, arg=[selector, text])

    def shows(self, selector: str) -> bool:
        shown: bool = self.page.evaluate("where => inside('alerts', where)?.checkVisibility() ?? false", selector)
        return shown

    def press(self, selector: str) -> None:
        self.page.wait_for_function("where => inside('alerts', where)?.checkVisibility()", arg=selector)
        self.page.evaluate("where => inside('alerts', where).click()", selector)

    def href(self, selector: str) -> str:
        found: str = self.page.evaluate("where => inside('alerts', where).href", selector)
        return found

    def names(self, selector: str) -> list[str]:
        script = "where => [...inside('alerts', '.body').querySelectorAll(where)].map((node) => node.innerText)"
        found: list[str] = self.page.evaluate(script, selector)
        return found


@pytest.fixture
def alerts(page: Page, backend: ScriptedBackend, mount: Mount) -> Alerts:
    return Alerts(page, backend, mount)


def test_an_alert_says_what_since_when_whose_fault_and_what_to_do(alerts: Alerts) -> None:
    alerts.fire(view())
    alerts.open()
    card = ".alert[data-alert=a1]"
    assert alerts.text(f"{card} .status") == "Warning"
    assert alerts.text(f"{card} .fold") == "LeakNamed"
    assert alerts.text(f"{card} .badge") == "firing"
    assert alerts.text(f"{card} .what") == "Requests that ended still hold blocks."
    assert alerts.text(f"{card} .culprit") == "To blame: Request agent-3, aborted, holds blocks 4, 5 and 6."
    assert alerts.text(f"{card} .time").startswith("since ")
    assert alerts.names(f"{card} .steps li") == rule()["do"]
    assert alerts.text(f"{card} .found") == "Request agent-3 was aborted and still holds 3 blocks."
    assert alerts.names(f"{card} .numbers tbody td") == ["Findings of leak", "1", "1"]
    assert alerts.text(f"{card} .told") == "Nobody: no target is set."
    url = alerts.backend.url
    assert alerts.href(f"{card} .main-button") == f"{url}/?source=demo&at=1.90&mark=a1"
    assert alerts.href(f"{card} .engine") == f"{url}/?source=demo"
    assert alerts.href(f"{card} .actions a.quiet-button") == f"{url}/?rule=LeakNamed"


@pytest.mark.parametrize("link", ["live?source=demo&at=1.90", "./?source=demo&at=1.90", "?source=demo&at=1.90"])
def test_the_moment_opens_on_the_live_page_which_is_the_apps_root(alerts: Alerts, link: str) -> None:
    alerts.fire(view(link=link))
    alerts.open()
    assert alerts.href(".alert .main-button") == f"{alerts.backend.url}/?source=demo&at=1.90"


def test_who_was_told_who_waits_and_why_one_failed(alerts: Alerts) -> None:
    failed = told("pager", delivered=None, attempts=4, error="Connection refused.")
    waits = told("mail", delivered=None, attempts=0)
    pager = target("pager", state="failing", waiting=2, error="Connection refused.", next_try=LOOKED)
    alerts.fire(view(told=[told(), failed, waits]), targets=[target(), pager, target("mail", state="unused")])
    alerts.open()
    lines = alerts.names(".told li")
    assert lines[0].startswith("slack was told at ")
    assert lines[1:] == ["pager is not told yet: Connection refused, after 4 tries.", "mail is being told"]
    assert alerts.names(".targets li") == ["slack\ntakes them", "pager\nfails, 2 waiting", "mail\nnothing sent yet"]
    alerts.page.evaluate("inside('alerts', '.targets [data-state=failing]').focus()")
    tip = alerts.page.evaluate("inside('alerts', '.kx-tip').innerText")
    assert "Connection refused." in tip
    assert "https://hooks.example/…" in tip


def test_alertmanager_is_told_also_of_what_fired_before_it_was_set(alerts: Alerts) -> None:
    manager = target("am", kind="alertmanager", address="http://am:9093")
    alerts.fire(view(), targets=[manager], can_mute=False)
    alerts.open()
    alerts.has(".told li", "No delivery is kept; Alertmanager is told each minute while it fires.")


def test_nothing_fires_is_said_with_what_looks_at_what_and_that_nobody_would_be_told(alerts: Alerts) -> None:
    alerts.open()
    alerts.has(".calm", "31 rules look at 2 engines, last at ")
    assert alerts.text(".counts") == "Nothing fires"
    assert "KVXRAY_WEBHOOKS" in alerts.text(".nobody")
    alerts.fire(targets=[target()])
    alerts.has(".calm", "What fires is sent to slack.")
    assert not alerts.shows(".nobody")


def test_rules_that_nothing_watched_can_tell_are_no_comfort(alerts: Alerts) -> None:
    blind = [{"engine": "demo", "state": "not_observable", "why": "Attach its metrics."}]
    alerts.backend.answers["rules"] = rules_answer(rule(), rule("KVStarved", served=blind))
    alerts.open()
    alerts.has(".calm", "Of 1 of them nothing that is watched can tell")


def test_counts_by_severity_and_what_is_about_to_fire(alerts: Alerts) -> None:
    three = [view(alert("a", severity="critical")), view(alert("b")), view(alert("c"))]
    soon = {"rule": "KVStarved", "severity": "warning", "engine": "gpu-7", "since": LOOKED, "fires_in_s": 99.5}
    alerts.fire(*three, num=5, pending=[soon])
    alerts.open()
    assert alerts.names(".counts li") == ["1\ncritical", "2\nwarning", "2\nnot listed", "1\nabout to fire"]
    assert "fires in 1 min 40 s if it goes on" in alerts.text(".pending")
    assert "2 more fire and are not listed." in alerts.names(".active > .faint")


def test_alerts_that_the_database_refuses_are_said_to_be_not_stored(alerts: Alerts) -> None:
    why = "2 alerts not stored yet: the database at log.db takes no writes: the disk is full; free some space."
    alerts.fire(view(), not_stored=why)
    alerts.open()
    alerts.has(".unstored", why)
    alerts.fire(view())
    alerts.page.wait_for_function("inside('alerts', '.unstored').hidden")


def test_what_nobody_can_tell_any_more_is_neither_firing_nor_over(alerts: Alerts) -> None:
    alerts.fire(view(unknown_since=LOOKED))
    alerts.open()
    assert alerts.text(".alert .badge") == "unknown"
    assert "nobody can tell since" in alerts.text(".alert .time")


def test_a_silence_leads_to_where_it_is_and_only_to_a_web_page(alerts: Alerts) -> None:
    quiet = {"by": "ann", "until": LOOKED, "note": "upgrade", "link": "https://am.example/#/silences/1", "mute_id": ""}
    evil = quiet | {"link": "javascript:alert(1)"}
    there = target("Alertmanager", kind="alertmanager", address="https://am.example")
    alerts.fire(view(alert("a"), quiet=quiet), view(alert("b"), quiet=evil), view(), can_mute=False, targets=[there])
    alerts.open()
    said = alerts.text("[data-alert=a] .quiet")
    assert said.startswith("Silenced by ann until ")
    assert ": upgrade" in said
    assert alerts.href("[data-alert=a] .quiet a") == "https://am.example/#/silences/1"
    assert alerts.href("[data-alert=b] .quiet a") == ""
    assert alerts.names(".list .alert .badge") == ["quiet", "quiet", "firing"]
    assert not alerts.shows("[data-alert=a1] .actions button:last-of-type"), "Alertmanager's silences are made there"
    silence = "https://am.example/#/silences/new?filter=%7Balertname%3D%22LeakNamed%22%2Cengine%3D%22demo%22%7D"
    assert alerts.href("[data-alert=a1] .actions a:last-child") == silence
    assert not alerts.shows("[data-alert=a] .actions a:last-child")


def test_an_alert_is_muted_for_a_time_with_a_note_and_the_mute_is_ended(alerts: Alerts) -> None:
    alerts.fire(view())
    alerts.open()
    alerts.press(".alert .actions button:last-of-type")
    assert alerts.text("dialog h2") == "Mute LeakNamed"
    alerts.press("dialog input[value='8h']")
    alerts.page.evaluate("inside('alerts', '#mute-note').value = ' fix is on its way '")
    alerts.press("dialog .main-button")
    alerts.page.wait_for_function("inside('alerts', 'dialog .problem').innerText === 'There is no such thing.'")
    alerts.backend.answers["mutes"] = mute()
    alerts.backend.answers["mutes/m1"] = {}
    quiet = {"by": "", "until": LOOKED, "note": "fix is on its way", "link": "", "mute_id": "m1"}
    alerts.fire(view(quiet=quiet), mutes=[mute()])
    alerts.press("dialog .main-button")
    alerts.page.wait_for_function("!inside('alerts', 'dialog').open")
    body = {"rule": "LeakNamed", "engine": "demo", "for": "8h", "note": "fix is on its way"}
    assert alerts.backend.sent[-1] == ("POST", "mutes", body)
    alerts.has(".alert .quiet", "Muted until ")
    assert alerts.text(".muted-list b") == "LeakNamed on demo"
    alerts.press(".alert .quiet button")
    alerts.fire(view())
    alerts.page.wait_for_function("!inside('alerts', '.alert .quiet').checkVisibility()")
    assert alerts.backend.sent[-1] == ("DELETE", "mutes/m1", None)


def test_a_rule_is_muted_everywhere(alerts: Alerts) -> None:
    alerts.backend.answers["mutes"] = mute(engine="")
    alerts.fire(view())
    alerts.open()
    alerts.press(".alert .actions button:last-of-type")
    alerts.press("dialog input[value=rule]")
    alerts.press("dialog .main-button")
    alerts.page.wait_for_function("!inside('alerts', 'dialog').open")
    assert alerts.backend.sent[-1] == ("POST", "mutes", {"rule": "LeakNamed", "engine": "", "for": "2h", "note": ""})


def test_an_alert_is_copied_as_text(alerts: Alerts) -> None:
    alerts.fire(view())
    alerts.open()
    alerts.page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    alerts.press(".alert .actions button")
    alerts.page.wait_for_function("window.copied === 'All of a1.'")


def test_of_many_alerts_each_is_a_line_that_opens(alerts: Alerts) -> None:
    alerts.fire(*[view(alert(f"a{at}", engine=f"pod-{at}")) for at in range(200)], num=200)
    alerts.open()
    assert len(alerts.names(".list .alert")) == 200
    assert not alerts.shows(".facts")
    alerts.page.evaluate("inside('alerts', '[data-alert=a7] .fold').focus()")
    alerts.page.keyboard.press("Enter")
    assert alerts.shows("[data-alert=a7] .facts")
    assert not alerts.shows("[data-alert=a8] .facts")


def test_of_many_findings_five_are_seen_and_the_others_open(alerts: Alerts) -> None:
    found = tuple(finding(f"Request agent-{at} holds 3 blocks.", id=f"f{at}") for at in range(20))
    alerts.fire(view(alert(findings=found, num_findings=95)), view(alert("b", findings=found[:5], num_findings=5)))
    alerts.open()
    others = "[data-alert=a1] .facts .others"
    assert len(alerts.names("[data-alert=a1] .found li")) == 5
    assert alerts.text(others) == "and 15 more"
    assert "75 more are not listed." in alerts.text("[data-alert=a1] .facts")
    assert not alerts.shows("[data-alert=b] .facts .others")
    alerts.press(others)
    assert len(alerts.names("[data-alert=a1] .found li")) == 20
    alerts.press(others)
    assert len(alerts.names("[data-alert=a1] .found li")) == 5


@pytest.mark.parametrize("width", [390, 1280])
def test_the_way_to_the_moment_stands_right_under_who_is_to_blame(alerts: Alerts, width: int) -> None:
    alerts.page.set_viewport_size({"width": width, "height": 800})
    alerts.page.evaluate("document.body.style.cssText += ';width:auto;margin:0'")
    alerts.fire(view())
    alerts.open()
    place = "where => inside('alerts', where).getBoundingClientRect().toJSON()"
    blamed, way, facts = (alerts.page.evaluate(place, where) for where in (".culprit", ".main-button", ".facts"))
    assert blamed["bottom"] < way["top"] < blamed["bottom"] + 20
    assert way["bottom"] < facts["top"]
    assert way["left"] == blamed["left"]


def test_an_unchanged_page_is_not_redrawn(alerts: Alerts) -> None:
    quiet = {"by": "ann", "until": LOOKED, "note": "", "link": "", "mute_id": "m1"}
    alerts.fire(*[view(alert(f"a{at}"), told=[told()], quiet=quiet) for at in range(3)], mutes=[mute()])
    alerts.open()
    alerts.has(".steps", "Open the moment")
    alerts.page.evaluate("""() => {
        window.changes = 0;
        const seen = (records) => (window.changes += records.length);
        const all = { subtree: true, childList: true, attributes: true };
        new MutationObserver(seen).observe(inside('alerts', '.active'), all);
    }""")
    asked = alerts.backend.asked.count("alerts")
    while alerts.backend.asked.count("alerts") < asked + 3:
        alerts.page.wait_for_timeout(100)
    assert alerts.page.evaluate("changes") == 0


def test_the_address_names_an_alert_and_it_is_followed_until_it_is_over(alerts: Alerts) -> None:
    alerts.fire(*[view(alert(f"a{at}")) for at in range(9)])
    alerts.backend.answers["alerts/a8"] = view(alert("a8"))
    alerts.open("?id=a8")
    alerts.page.wait_for_function("inside('alerts', '[data-alert=a8]').dataset.chosen === ''")
    assert alerts.shows("[data-alert=a8] .facts")
    assert alerts.page.evaluate("inside('alerts', '.alert:focus')?.dataset.alert") == "a8"
    alerts.backend.answers["alerts/a8"] = view(alert("a8", state="over", ended_s=60))
    alerts.fire()
    alerts.page.wait_for_function("inside('alerts', '#tab-history').ariaSelected === 'true'")
    alerts.has(".past > .alert .time", "lasted 1 min 0 s")
    assert alerts.text(".past > .alert .badge") == "over"


def test_an_alert_that_does_not_exist_is_said(alerts: Alerts) -> None:
    alerts.open("?id=nobody")
    alerts.has(".past > .note", "There is no such thing.")


def test_history_is_filtered_and_turned_page_by_page(alerts: Alerts) -> None:
    over = [view(alert(f"h{at}", state="over", ended_s=90 + at)) for at in range(25)]
    alerts.open("?tab=history")
    alerts.has("#panel-history table ~ .note, #panel-history .panel > .note", "No alert is over yet.")
    asked: list[str] = []
    alerts.page.on("request", lambda request: asked.append(request.url))
    alerts.fire(*over, num=60)
    alerts.has("#panel-history .panel-head .muted", "1 to 25 of 60")
    assert alerts.names("[data-alert=h0] .number") == ["1 min 30 s"]
    assert alerts.href("[data-alert=h0] .link") == f"{alerts.backend.url}/?source=demo&at=1.90&mark=h0"
    with alerts.page.expect_request(lambda request: "offset=25" in request.url):
        alerts.press("#panel-history .tools button:last-child")
    alerts.has("#panel-history .panel-head .muted", "26 to 50 of 60")
    choose = "select => { const box = inside('alerts', select); box.value = box.options[1].value; "
    choose += "box.dispatchEvent(new Event('change')); }"
    with alerts.page.expect_request(lambda request: "rule=LeakNamed" in request.url and "offset" not in request.url):
        alerts.page.evaluate(choose, "select[aria-label=Rule]")
    with alerts.page.expect_request(lambda request: "severity=critical" in request.url):
        alerts.page.evaluate(choose, "select[aria-label=Severity]")
    alerts.fire()
    alerts.has("#panel-history .panel > .note", "No alert fits.")


def test_one_that_is_over_opens_and_back_closes_it(alerts: Alerts) -> None:
    alerts.fire(view(alert("h1", state="over", ended_s=90)), num=1)
    alerts.backend.answers["alerts/h1"] = view(alert("h1", state="over", ended_s=90), told=[told(), told(kind="over")])
    alerts.open("?tab=history")
    alerts.press("#panel-history [data-alert=h1] .name")
    alerts.has(".past > .alert .told", "slack was told that it is over at ")
    assert "id=h1" in alerts.page.url
    alerts.page.go_back()
    alerts.page.wait_for_function("!inside('alerts', '.past > .alert').checkVisibility()")
    assert "tab=history" in alerts.page.url


def test_the_list_of_those_that_are_over_is_not_cut_on_a_narrow_page(alerts: Alerts) -> None:
    alerts.page.set_viewport_size({"width": 390, "height": 800})
    alerts.page.goto(f"{alerts.backend.url}/?tab=history&id=h1")
    alerts.page.wait_for_function("window.ready")
    alerts.page.evaluate("document.body.style.cssText += ';width:auto;margin:0'")
    over = [view(alert(f"h{at}", state="over", ended_s=90)) for at in range(25)]
    alerts.backend.answers["alerts/h1"] = over[1]
    alerts.fire(*over)
    alerts.open()
    alerts.has(".past > .alert .told", "No delivery is kept.")
    alerts.page.wait_for_function("inside('alerts', '[data-alert=h24]') !== null")
    cut = "(box => box.scrollHeight - box.clientHeight)(inside('alerts', '.past .scroll'))"
    assert alerts.page.evaluate(cut) <= 1


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
    alerts.backend.answers["rules"] = rules_answer(rule(is_on=False))
    alerts.press(switch)
    alerts.page.wait_for_function("where => inside('alerts', where).ariaChecked === 'false'", arg=switch)
    assert alerts.backend.sent[-1] == ("PUT", "rules/LeakNamed", {"is_on": False})
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


def test_tabs_are_turned_by_the_keyboard_and_by_back(alerts: Alerts) -> None:
    alerts.open()
    alerts.page.evaluate("inside('alerts', '#tab-active').focus()")
    alerts.page.keyboard.press("ArrowRight")
    assert alerts.shows("#panel-history")
    assert "tab=history" in alerts.page.url
    alerts.page.keyboard.press("End")
    assert alerts.shows("#panel-rules")
    alerts.page.go_back()
    alerts.page.wait_for_function("inside('alerts', '#panel-history').checkVisibility()")
    alerts.page.go_back()
    alerts.page.wait_for_function("inside('alerts', '#panel-active').checkVisibility()")


def test_a_backend_that_does_not_answer_is_said_and_what_was_shown_stays(alerts: Alerts) -> None:
    del alerts.backend.answers["alerts"]
    alerts.mount("alerts", wait=False, alerts=alerts_words())
    alerts.has(".trouble", "There is no such thing. Nobody knows what fires now. Trying again.")
    alerts.fire(view())
    alerts.has(".alert .fold", "LeakNamed")
    del alerts.backend.answers["alerts"]
    alerts.has(".trouble", "Nobody knows what fires now. What is shown is the last that was known, of ")
    assert alerts.shows(".alert")


def test_a_page_without_an_alert_is_no_comfort_while_the_backend_is_broken(alerts: Alerts) -> None:
    alerts.open()
    assert alerts.text(".calm b") == alerts.text(".counts") == "Nothing fires"
    alerts.page.route("**/api/alerts?*", lambda route: route.fulfill(status=500, body="broken"))
    alerts.has(".trouble", "The backend answered 500. Nobody knows what fires now.")
    assert alerts.text(".calm b") == alerts.text(".counts") == "Nothing fired at the last look"
    alerts.page.unroute("**/api/alerts?*")
    alerts.has(".calm b", "Nothing fires")
    assert alerts.text(".counts") == "Nothing fires"


def test_names_and_sentences_are_never_markup(alerts: Alerts) -> None:
    evil = alert("a1", EVIL, engine=EVIL, sentence=EVIL, culprit=EVIL, findings=(finding(EVIL),))
    alerts.backend.answers["rules"] = rules_answer(rule(EVIL, do=[EVIL, f"`{EVIL}`"], sentence=EVIL))
    alerts.fire(view(evil, told=[told(EVIL, error=EVIL, delivered=None)]), targets=[target(EVIL)])
    alerts.open()
    alerts.has(".steps", EVIL)
    assert alerts.text(".alert .what") == EVIL
    assert alerts.page.evaluate("inside('alerts', 'img')") is None


@pytest.mark.parametrize("width", [390, 700, 1280])
@pytest.mark.parametrize("tab", ["active", "history", "rules"])
def test_nothing_is_wider_than_the_page(alerts: Alerts, width: int, tab: str) -> None:
    alerts.page.set_viewport_size({"width": width, "height": 800})
    long = "gpu-7-with-a-very-long-name-that-some-deployment-gave-it-7f9c8d6b5-x2x4z" * 2
    alerts.fire(view(alert("a1", engine=long, culprit=long), told=[told(long)]), targets=[target(long)])
    served = [{"engine": long, "state": "unknown", "why": long}]
    alerts.backend.answers["rules"] = rules_answer(rule(served=served))
    query = {"active": "?id=a1", "history": "?tab=history", "rules": "?rule=LeakNamed"}[tab]
    alerts.page.goto(f"{alerts.backend.url}/{query}")
    alerts.page.wait_for_function("window.ready")
    alerts.page.evaluate("document.body.style.cssText += ';width:auto;margin:0'")
    alerts.open()
    alerts.page.wait_for_function("key => inside('alerts', `#panel-${key}`).checkVisibility()", arg=tab)
    assert alerts.page.evaluate("document.documentElement.scrollWidth") <= width
    cut = """() => [...inside('alerts', '.body').querySelectorAll('.alert, .summary, .runbook')].filter(
      (node) => node.checkVisibility() && node.scrollWidth > node.clientWidth + 1).map((node) => node.className)"""
    assert alerts.page.evaluate(cut) == []


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("state", ["active", "calm", "history", "rules", "own", "mute"])
def test_axe_finds_nothing(alerts: Alerts, theme: str, state: str) -> None:
    quiet = {"by": "ann", "until": LOOKED, "note": "n", "link": "https://am.example", "mute_id": ""}
    soon = {"rule": "KVStarved", "severity": "info", "engine": "gpu-7", "since": LOOKED, "fires_in_s": 9.0}
    failing = target("pager", state="failing", error="Refused.")
    if state != "calm":
        severe = view(alert("b", severity="critical", rule="AuditResidual"), quiet=quiet, unknown_since=LOOKED)
        lines = [view(alert("c", severity="info"), told=[told(error="No.", delivered=None)]), view(alert("d"))]
        alerts.fire(severe, view(), *lines, pending=[soon], mutes=[mute()], targets=[target(), failing])
    stands = [{"engine": f"e{at}", "state": key, "why": "Because."} for at, key in enumerate(STANDS)]
    alerts.backend.answers["rules"] = rules_answer(rule(served=stands), rule("Off", is_on=False, origin="file"))
    alerts.page.goto(f"{alerts.backend.url}/{ {'history': '?tab=history', 'rules': '?rule=LeakNamed'}.get(state, '') }")
    alerts.page.wait_for_function("window.ready")
    turn_to(alerts.page, theme)
    alerts.open()
    if state == "rules":
        alerts.has(".runbook", "What to do")
    if state == "own":
        alerts.press("#tab-rules")
        alerts.press("#panel-rules .begin")
    if state == "mute":
        alerts.press("[data-alert=a1] .fold")
        alerts.press("[data-alert=a1] .actions button:last-of-type")
    assert_accessible(alerts.page, f"{state}, {theme}")


def test_the_page_draws_itself() -> None:
    def script() -> None:
        from kvxray_app.views.alerts import alerts

        alerts()

    assert not AppTest.from_function(script, default_timeout=90).run().exception


def test_words_cover_what_the_api_tells_and_the_example_is_a_rule() -> None:
    states = ServedView.model_json_schema()["properties"]["state"]["enum"]
    assert set(STANDS) == set(states)
    assert set(SEVERITIES) == {"info", "warning", "critical"}
    assert [rule.name for rule in rules_in(EXAMPLE.encode())] == ["CacheNearlyFull"]
