"""What a recorded vLLM server had cached, as the real backend tells it and the real page shows it, now and before."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.demo_rig import DemoRig, until
from tests.e2e.pages import Tab, patient_tab
from tests.e2e.recorded_engine import BEFORE_RESET, RecordedEngine, recorded_engine

pytestmark = pytest.mark.browser

NAME = "gpu-7"
CACHED = 22
COUNT = "window.__kvxray?.residency?.count() ?? null"


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoRig]:
    rig = DemoRig(tmp_path_factory.mktemp("residency"))
    rig.start_alone()
    yield rig
    rig.close()


@pytest.fixture(scope="module")
def engine(rig: DemoRig) -> Iterator[RecordedEngine]:
    """Watched from its first event on, up to where its cache was reset."""
    with recorded_engine() as engine:
        spec = {"name": NAME, "events": engine.events, "replay": engine.replay, "metrics": engine.metrics}
        httpx2.post(f"{rig.url}/api/engines", json=spec).raise_for_status()
        engine.rig.wait_for_subscriber()
        engine.go_on(BEFORE_RESET)
        until(lambda: rig.get("residency", source=NAME)["figures"]["cached_blocks"]["value"] == CACHED)
        yield engine


@pytest.fixture(scope="module")
def tab(chromium: Browser, engine: RecordedEngine) -> Iterator[Tab]:
    with patient_tab(chromium) as tab:
        yield tab


def shown(page: Page, figure: str) -> str:
    return page.locator(f".tile[data-figure={figure}] .value").inner_text()


def test_every_cached_block_is_a_cell_and_told_of_in_full(tab: Tab, rig: DemoRig) -> None:
    page = tab.page
    tab.open(f"{rig.url}/?source={NAME}")
    page.wait_for_function(f"{COUNT} === {CACHED}")
    assert shown(page, "cached_blocks") == str(CACHED)
    stored = next(event for event in reversed(rig.get("events", source=NAME)["events"]) if event["parent"])
    told = rig.get("residency/hash", source=NAME, hash=stored["hash"])
    page.locator(".tail .link", has_text=stored["hash"][:8]).first.click()
    expect(page.locator(".inspector .whole")).to_have_text(stored["hash"])
    expect(page.locator(".inspector dd .link")).to_have_attribute("title", told["parent"]["hash"])


def test_usage_of_nothing_beside_a_full_cache_is_explained(tab: Tab) -> None:
    expect(tab.page.locator(".explanations")).to_contain_text(f"{CACHED} of {CACHED + 1} blocks are cached")


def test_a_press_on_an_event_shows_the_cache_as_it_was_then(tab: Tab, rig: DemoRig) -> None:
    page = tab.page
    events = [event for event in rig.get("events", source=NAME)["events"] if event["hash"]]
    then = events[len(events) // 2]["seq"]
    tab.open(f"{rig.url}/?source={NAME}&at={then}")
    past = rig.get("residency", source=NAME, at=then)
    hashes = sum(place["hashes"]["value"] for place in past["places"])
    page.wait_for_function(f"{COUNT} === {hashes}")
    assert shown(page, "cached_blocks") == str(past["figures"]["cached_blocks"]["value"])
    expect(page.locator(".moment")).to_contain_text(then)
    page.get_by_role("button", name="Event before").click()
    before = rig.get("step", source=NAME, at=then, by="event", n=-1)["at"]
    expect(page.locator(".moment")).to_contain_text(before)
    page.get_by_role("button", name="Back to live").click()
    page.wait_for_function(f"{COUNT} === {CACHED}")
    page.wait_for_function("!location.search.includes('at=')")


def test_its_history_and_its_timelines_tell_what_was_stored(tab: Tab, rig: DemoRig) -> None:
    page = tab.page
    tab.open(f"{rig.url}/history?source={NAME}")
    expect(page.get_by_text("newest first")).to_be_visible()
    tab.open(f"{rig.url}/timelines?source={NAME}")
    page.get_by_role("button", name="All events that are kept").click()
    expect(page.locator("[data-chart=cached] .readings")).to_contain_text(str(CACHED))


def test_a_reset_empties_the_map_while_somebody_looks(tab: Tab, rig: DemoRig, engine: RecordedEngine) -> None:
    page = tab.page
    tab.open(f"{rig.url}/?source={NAME}")
    page.wait_for_function(f"{COUNT} === {CACHED}")
    engine.go_on(1)
    left = until(lambda: _other(rig))
    page.wait_for_function(f"{COUNT} === {left}")
    expect(page.locator(".tail")).to_contain_text("Cleared")


def _other(rig: DemoRig) -> int | None:
    """Blocks in the cache, once they are not those from before."""
    places = rig.get("residency", source=NAME)["places"]
    left = int(sum(place["hashes"]["value"] for place in places))
    return left if left != CACHED else None
