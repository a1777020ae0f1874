"""The alerts that fire, on the overview: above everything else, each a link to all of it, and none where none does."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from kvxray_app.components.overview_panels import overview_words
from playwright.sync_api import Page

from tests.app.scripted_backend import ScriptedBackend
from tests.app.test_page_overview import Mount, answer, engine, hidden, text, wait_for

pytestmark = pytest.mark.browser


def alert(at: int, severity: str = "warning", **changed: Any) -> dict[str, Any]:
    return {
        "id": f"a{at}", "rule": "LeakNamed", "severity": severity, "engine": f"east-{at}",
        "since": "2026-01-01T00:00:00.000Z", "sentence": f"Request r{at} still holds 7 blocks.",
        "link": f"alerts?id=a{at}", **changed,
    }  # fmt: skip


def show(backend: ScriptedBackend, mount: Mount, *alerts: dict[str, Any], num: int | None = None) -> None:
    told = {"alerts": list(alerts), "num_alerts": len(alerts) if num is None else num}
    backend.answers["overview"] = answer(engine("east"), engine("west")) | told
    mount("overview", wait=False, overview=overview_words(), source=None)


def test_what_fires_stands_first_and_leads_to_all_of_it(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    show(backend, mount, alert(1, "critical", rule="AdmissionStuck"), alert(2))
    wait_for(page, ".alerts-strip li:nth-child(2) .sentence", "Request r2 still holds 7 blocks.")
    assert page.evaluate("inside('overview', '.overview').firstChild.dataset.key") == "alerts"
    assert text(page, ".alerts-strip li b") == "AdmissionStuck"
    assert text(page, ".alerts-strip li .muted") == "east-1"
    assert page.evaluate("inside('overview', '.alerts-strip').dataset.status") == "critical"
    assert page.evaluate("inside('overview', '.alerts-strip li a').href") == f"{backend.url}/alerts?id=a1"
    assert page.evaluate("inside('overview', '.alerts-strip .panel-head a').href") == f"{backend.url}/alerts"


def test_of_many_a_few_are_listed_and_all_are_counted(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    show(backend, mount, *[alert(at) for at in range(10)], num=23)
    wait_for(page, ".alerts-strip .panel-head .muted", "5 of 23")
    assert page.evaluate("inside('overview', '.alerts-strip ul').children.length") == 5


def test_where_nothing_fires_nothing_stands_there(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    show(backend, mount)
    wait_for(page, ".whose b", "east")
    assert hidden(page, ".alerts-strip")


def test_the_strip_goes_when_the_last_alert_is_over(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    show(backend, mount, alert(1))
    wait_for(page, ".alerts-strip .sentence", "Request r1 still holds 7 blocks.")
    backend.answers["overview"] = answer(engine("east")) | {"alerts": [], "num_alerts": 0}
    page.wait_for_function("inside('overview', '.alerts-strip').hidden")


def test_markup_in_what_an_alert_says_is_text(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    show(backend, mount, alert(1, sentence="<img src=x onerror=alert(1)>", engine="<b>x</b>"))
    wait_for(page, ".alerts-strip .sentence", "<img src=x onerror=alert(1)>")
    assert text(page, ".alerts-strip .who .muted") == "<b>x</b>"


def test_an_alert_of_an_earlier_day_says_the_day_and_one_of_today_its_time_alone(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    today = datetime.now(UTC).isoformat()
    show(backend, mount, alert(1, since="2025-03-09T12:04:05.000Z"), alert(2, since=today))
    wait_for(page, ".alerts-strip li:nth-child(2) .sentence", "Request r2 still holds 7 blocks.")
    # In the browser's own zone, whatever that is.
    local = page.evaluate("new Date('2025-03-09T12:04:05Z').toLocaleTimeString('en-GB')")
    assert text(page, ".alerts-strip li time") == f"9 Mar 2025, {local}"
    now = page.evaluate(f"new Date('{today}').toLocaleTimeString('en-GB')")
    assert text(page, ".alerts-strip li:nth-child(2) time") == now
