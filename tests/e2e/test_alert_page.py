"""A person on call: a leak fires an alert, its link opens the moment with the leaked blocks marked and their owner
named; a rule of one's own is tried, saved, fires, and is over once the engine is begun anew.

One story in the order it happens, on an engine that leaks what it aborts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.demo_rig import until
from tests.e2e.pages import Tab
from tests.e2e.told_engine import ToldEngine, told_engine

pytestmark = pytest.mark.browser

LEAK_NOW = """\
rules:
- name: LeakNow
  severity: critical
  for: 0s
  sentence: "Blocks leak just now."
  do: ["See who aborts."]
  when:
  - finding: leak
"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToldEngine]:
    with told_engine(tmp_path_factory.mktemp("alerts")) as engine:
        yield engine


@pytest.fixture(scope="module")
def leak(engine: ToldEngine) -> dict[str, Any]:
    """The alert of a leak, as the API tells it."""
    engine.begin(leak=True)
    return until(lambda: _alert(engine, "LeakNamed"))


def _alert(engine: ToldEngine, rule: str) -> dict[str, Any] | None:
    """It works on meanwhile: what leaks is told from the steps that follow."""
    engine.work(10)
    told = engine.rig.get("alerts", state="active")["alerts"]
    return next((view for view in told if view["alert"]["rule"] == rule), None)


def culprits(view: dict[str, Any], kind: str) -> set[Any]:
    return {one for finding in view["alert"]["findings"] for one in finding["subjects"][kind]}


def wait_for_live(page: Page) -> None:
    page.wait_for_function("window.__kvxray?.map?.cellCentre(1) != null")


def test_before_anything_is_wrong_the_page_says_what_looks(engine: ToldEngine, tab: Tab) -> None:
    tab.open(f"{engine.rig.url.rstrip('/')}/alerts")
    expect(tab.page.locator(".calm")).to_contain_text("rules look at 1 engine")
    expect(tab.page.locator(".nobody")).to_contain_text("Nobody is told")


def test_a_leak_fires_and_names_who_leaks(tab: Tab, leak: dict[str, Any]) -> None:
    card = tab.page.locator(f"#panel-active [data-alert='{leak['alert']['id']}']")
    expect(card.locator(".fold")).to_have_text("LeakNamed")
    expect(card.locator(".engine")).to_have_text("engine")
    assert leak["alert"]["culprit"]
    expect(card.locator(".culprit")).to_contain_text(leak["alert"]["culprit"])
    expect(card.locator(".steps li")).not_to_have_count(0)


def test_its_link_opens_the_moment_with_the_leaked_blocks_marked(
    engine: ToldEngine, tab: Tab, leak: dict[str, Any]
) -> None:
    page = tab.page
    page.locator(f"[data-alert='{leak['alert']['id']}']").get_by_role("link", name="Open the moment").click()
    page.wait_for_url("**/?source=engine&at=*")
    wait_for_live(page)
    page.wait_for_function("__kvxray.map.marked() > 0")
    now = engine.rig.get(f"alerts/{leak['alert']['id']}")  # it may have found more since
    assert len(culprits(leak, "blocks")) <= page.evaluate("__kvxray.map.marked()") <= len(culprits(now, "blocks"))
    strip = page.locator(".strip.panel")
    expect(strip).to_contain_text("LeakNamed")
    owners = culprits(now, "requests")
    assert strip.locator(".chip").first.inner_text() in owners
    named = page.locator("tr[data-marked] .id")
    named.first.wait_for()
    assert set(named.all_inner_texts()) <= owners


def test_a_marked_block_leads_to_its_inspector_and_the_marks_survive_a_step(
    engine: ToldEngine, tab: Tab, leak: dict[str, Any]
) -> None:
    page = tab.page
    now = engine.rig.get(f"alerts/{leak['alert']['id']}")
    chip = page.locator(".strip.panel .chip", has_text="block").first
    block = chip.inner_text()
    chip.click()
    expect(page.locator(".st-key-inspector h2").first).to_have_text(block.capitalize())
    expect(page.locator(".st-key-inspector")).to_contain_text(
        re.compile("|".join(map(re.escape, culprits(now, "requests"))))
    )
    at = page.evaluate("new URLSearchParams(location.search).get('at')")
    page.locator(".st-key-time_bar").get_by_role("button", name="Back by one event").click()
    page.wait_for_function("at => new URLSearchParams(location.search).get('at') !== at", arg=at)
    page.wait_for_function("__kvxray.map.marked() > 0")
    expect(page.locator(".strip.panel")).to_contain_text("To when it fired")
    assert f"mark={leak['alert']['id']}" in page.url


def test_marks_are_removed_and_the_alert_is_one_press_away(tab: Tab, leak: dict[str, Any]) -> None:
    page = tab.page
    page.locator(".strip.panel").get_by_role("link", name="Back to alerts").click()
    page.wait_for_url("**/alerts?id=*")
    expect(page.locator("#panel-active .alert[data-chosen]")).to_have_attribute("data-alert", leak["alert"]["id"])
    page.go_back()
    wait_for_live(page)
    page.get_by_role("button", name="Remove marks").click()
    page.wait_for_function("!location.search.includes('mark=')")
    page.wait_for_function("__kvxray.map.marked() === 0")


def test_a_rule_of_ones_own_is_checked_tried_on_history_and_saved(engine: ToldEngine, tab: Tab) -> None:
    page = tab.page
    tab.open(f"{engine.rig.url.rstrip('/')}/alerts?tab=rules")
    page.get_by_role("button", name="A rule of your own").click()
    box = page.locator("#own-rule")
    box.fill(LEAK_NOW.replace("critical", "grave"))
    page.get_by_role("button", name="Save and switch on").click()
    expect(page.locator("#own-problem")).to_contain_text("line 3")
    box.fill(LEAK_NOW)
    page.locator(".own .stretches").get_by_role("button", name="1 day").click()
    expect(page.locator(".own .result")).to_contain_text("would have fired once in 1 day")
    page.get_by_role("button", name="Save and switch on").click()
    expect(page.locator("[data-rule=LeakNow]")).to_contain_text("written here")
    until(lambda: _alert(engine, "LeakNow"))
    expect(page.locator("[data-rule=LeakNow] .stands")).to_contain_text("fires")


def test_once_the_engine_is_begun_anew_it_is_over_and_kept(engine: ToldEngine, tab: Tab) -> None:
    page = tab.page
    fired = _alert(engine, "LeakNow")
    assert fired is not None
    engine.begin()
    until(lambda: _is_over(engine, "LeakNow"))
    page.get_by_role("tab", name="History").click()
    row = page.locator(f"#panel-history tr[data-alert='{fired['alert']['id']}']")
    expect(row).to_contain_text("LeakNow")
    row.get_by_role("link", name="LeakNow", exact=True).click()
    expect(page.locator(".past > .alert .badge")).to_have_text("over")


def _is_over(engine: ToldEngine, rule: str) -> bool:
    engine.work(2)
    told = engine.rig.get("alerts", state="over")["alerts"]
    return any(view["alert"]["rule"] == rule for view in told)
