"""A person on call attaches a vLLM engine on the page: tests the connection, sees what can be known of it, sees its
cache, and removes it again.

One story in the order it happens, on a backend that follows nobody at first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.demo_rig import DemoRig, until
from tests.e2e.pages import Tab
from tests.e2e.recorded_engine import BEFORE_RESET, RecordedEngine, recorded_engine

pytestmark = pytest.mark.browser

NAME = "gpu-7"
CACHED = 22
"""Of 23 usable blocks, by the server's own count when it was recorded."""


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoRig]:
    rig = DemoRig(tmp_path_factory.mktemp("attach"))
    rig.start_alone()
    yield rig
    rig.close()


@pytest.fixture(scope="module")
def engine() -> Iterator[RecordedEngine]:
    with recorded_engine() as engine:
        yield engine


def engines(rig: DemoRig) -> dict[str, Any]:
    return {engine["name"]: engine for engine in rig.get("engines")["engines"]}


def listed(page: Page, certainty: str) -> set[str]:
    return set(page.locator(f".coverage[data-certainty={certainty}] dt").all_inner_texts())


def test_a_page_without_an_engine_leads_to_the_form(rig: DemoRig, tab: Tab) -> None:
    tab.open(rig.url)
    tab.page.get_by_role("link", name="Attach an engine").click()
    tab.page.wait_for_url(f"{rig.url.rstrip('/')}/attach")
    expect(tab.page.get_by_role("heading", name="Attach an engine")).to_be_visible()


def test_an_address_that_cannot_be_is_refused_beside_its_field(tab: Tab) -> None:
    tab.page.locator("#attach-events").fill("gpu-7 port 5557")
    tab.page.get_by_role("button", name="Test the connection").click()
    expect(tab.page.locator("[data-field=events] .problem")).not_to_be_empty()
    expect(tab.page.locator("#attach-events")).to_be_focused()


def test_a_test_of_the_connection_says_what_was_found_and_what_will_be_known(
    tab: Tab, rig: DemoRig, engine: RecordedEngine
) -> None:
    page = tab.page
    engine.go_on(10)
    for field, address in {"events": engine.events, "replay": engine.replay, "metrics": engine.metrics}.items():
        page.locator(f"#attach-{field}").fill(address)
    page.get_by_role("button", name="Test the connection").click()
    engine.rig.wait_for_subscriber()
    engine.go_on(5)
    expect(page.locator(".verdict")).to_have_attribute("data-is", "good")
    events, metrics = (page.locator(f"[data-part={part}]").inner_text() for part in ("events", "metrics"))
    for told in ("32 tokens", "GPU", "full attention", "answers"):
        assert told in events
    assert "23 blocks" in metrics
    assert listed(page, "exact")
    assert listed(page, "not_observable")
    assert not rig.get("engines")["engines"], "a test attaches nothing"


def test_attached_it_is_followed_from_its_first_event_on(tab: Tab, rig: DemoRig, engine: RecordedEngine) -> None:
    page = tab.page
    page.locator("#attach-name").fill(NAME)
    page.locator("#attach-labels").fill("node=gpu-7")
    page.get_by_role("button", name="Attach", exact=True).click()
    expect(page.get_by_role("link", name="Open its live page")).to_be_focused()
    engine.rig.wait_for_subscriber()
    until(lambda: rig.get("residency", source=NAME)["figures"]["cached_blocks"]["value"])  # by replay, while it is idle
    engine.go_on(BEFORE_RESET - 15)
    until(lambda: engines(rig).get(NAME, {}).get("state") == "connected")
    until(lambda: engines(rig)[NAME]["figures"]["cached_blocks"]["value"] == CACHED)


def test_the_fleet_tells_it_in_one_line(tab: Tab, rig: DemoRig) -> None:
    page = tab.page
    page.get_by_role("link", name="See all engines").click()
    line = page.locator(f"tr[data-engine={NAME}]")
    expect(line.locator("[data-figure=cached]")).to_have_text(f"{CACHED} / {CACHED + 1}")
    expect(line.locator("th")).to_contain_text("vLLM")
    told = engines(rig)[NAME]
    counts = told["coverage"]
    words = f"{counts['exact']} exact · {counts['derived']} derived · {counts['not_observable']} not"
    expect(line.locator(".coverage")).to_have_text(words)
    for key, figure in told["figures"].items():
        cell = line.locator(f"[data-figure={key}]")
        if figure["certainty"] == "not_observable" and cell.count():
            assert cell.inner_text() == "not observable"


def test_its_live_page_shows_its_cached_blocks_and_what_can_be_known(tab: Tab, rig: DemoRig) -> None:
    page = tab.page
    page.locator(f"tr[data-engine={NAME}]").click()
    page.wait_for_url(f"{rig.url.rstrip('/')}/?source={NAME}")
    shown = page.locator(".st-key-residency")
    expect(shown.locator(".tile[data-figure=cached_blocks] .value")).to_have_text(str(CACHED))
    page.wait_for_function("cached => window.__kvxray?.residency?.count() === cached", arg=CACHED)
    panels = rig.get("coverage", source=NAME)["panels"]
    expect(shown.locator(".coverage li")).to_have_count(len(panels))
    for panel in panels:
        line = shown.locator(f".coverage li[data-panel={panel['panel']}]")
        assert line.get_attribute("data-is") == panel["certainty"]
        assert panel["why"] in line.inner_text()
    assert {panel["certainty"] for panel in panels} == {"exact", "derived", "not_observable"}


def test_nothing_that_is_not_known_is_shown_as_a_number(tab: Tab, rig: DemoRig) -> None:
    figures = rig.get("residency", source=NAME)["figures"]
    unknown = [key for key, figure in figures.items() if figure["certainty"] == "not_observable"]
    assert unknown
    assert all(figures[key]["value"] is None for key in unknown)
    tiles = tab.page.locator(".st-key-residency .tile")
    assert tiles.count()
    for at in range(tiles.count()):
        tile = tiles.nth(at)
        if tile.get_attribute("data-figure") in unknown:
            assert "not observable" in tile.inner_text()
            assert not any(character.isdigit() for character in tile.locator(".value").inner_text())


def test_removed_it_is_gone_from_the_fleet_and_what_was_stored_stays(tab: Tab, rig: DemoRig) -> None:
    page = tab.page
    tab.open(f"{rig.url.rstrip('/')}/fleet")
    page.get_by_role("button", name=f"Remove {NAME}").click()
    page.get_by_role("button", name="Stop watching it").click()
    until(lambda: not engines(rig).get(NAME, {}).get("removable"))
    expect(page.get_by_role("button", name=f"Remove {NAME}")).to_have_count(0)
    assert rig.get("health")["database"]["stored_events"] > 0
