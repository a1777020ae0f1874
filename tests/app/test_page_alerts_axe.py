"""The alerts for every reader: axe finds nothing, nothing is wider than the page, and what is told is never markup."""

from __future__ import annotations

import pytest
from kvxray_app.components.alerts import STANDS

from tests.app.alerts_answers import LOOKED, alert, finding, mute, rule, rules_answer, target, told, view
from tests.app.alerts_page import Alerts
from tests.app.test_page_residency_axe import assert_accessible, turn_to

pytestmark = pytest.mark.browser
EVIL = "<img src=x onerror=alert(1)>"


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
