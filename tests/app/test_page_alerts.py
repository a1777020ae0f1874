"""Alerts that fire, in a real browser: each says whose fault it is, what to do and who was told."""

from __future__ import annotations

import pytest
from kvxray_app.components.alerts import alerts_words
from streamlit.testing.v1 import AppTest

from tests.app.alerts_answers import LOOKED, alert, finding, mute, rule, rules_answer, target, told, view
from tests.app.alerts_page import Alerts
from tests.app.fleet_answers import fleet_answer, fleet_engine

pytestmark = pytest.mark.browser


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


def test_that_nothing_fires_where_no_engine_is_watched_is_no_comfort(alerts: Alerts) -> None:
    alerts.backend.answers["engines"] = fleet_answer()
    alerts.open()
    alerts.has(".calm b", "No engine is watched")
    alerts.has(".calm", "Nothing can fire until one is attached; 31 rules will look at it.")
    assert alerts.names(".counts li[data-status=more]") == ["No engine is watched"]
    dot = "getComputedStyle(inside('alerts', '.calm b'), '::before').backgroundColor"
    grey = alerts.page.evaluate(dot)
    alerts.backend.answers["engines"] = fleet_answer(fleet_engine("demo"))
    alerts.has(".calm b", "Nothing fires")
    assert alerts.page.evaluate(dot) != grey


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


def test_the_page_draws_itself() -> None:
    def script() -> None:
        from kvxray_app.views.alerts import alerts

        alerts()

    assert not AppTest.from_function(script, default_timeout=90).run().exception
