"""Alerts that are over, in a real browser: followed to their end, kept, filtered and opened again."""

from __future__ import annotations

import pytest

from tests.app.alerts_answers import alert, told, view
from tests.app.alerts_page import Alerts

pytestmark = pytest.mark.browser


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
