"""A person goes back in time: the page shows what was, moves through it, compares, and comes back.

One story on one engine whose minutes pass in seconds; two lives of it, two minutes each.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Browser, Page

from tests.e2e.demo_rig import DemoRig, until
from tests.e2e.past_page import (
    arrive,
    assert_shows,
    counts_of,
    foot_of,
    json_of,
    opened_by,
    panel,
    place,
    press,
    rows_of,
    state_at,
    wait_for_address,
)
from tests.e2e.pictures import cells_coloured, open_page, picture
from tests.e2e.told_engine import ToldEngine, told_engine

pytestmark = pytest.mark.browser

STEPS = 240


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ToldEngine]:
    with told_engine(tmp_path_factory.mktemp("past")) as engine:
        for seed in (1, 2):
            engine.begin(seed=seed)
            engine.work(STEPS)
            engine.caught_up()
        # What came late into the log is counted a moment later.
        until(lambda: len(engine.rig.get("timeline", points=1000)["t"]) >= STEPS)
        yield engine


@pytest.fixture(scope="module")
def visitor(chromium: Browser, told: ToldEngine) -> Iterator[Page]:
    """One browser tab for the whole story, live in the beginning."""
    page = open_page(chromium, "dark")
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(told.rig.url)
    page.wait_for_function("window.__kvxray?.status() === 'live' && __kvxray.counts() !== null")
    page.wait_for_function("__kvxray.time?.whole()")
    yield page
    page.context.close()
    assert not errors, "a script on the page failed"


def test_one_press_on_the_bar_leads_to_the_past(visitor: Page, told: ToldEngine) -> None:
    assert visitor.evaluate("__kvxray.sockets()") == 1
    at = press(visitor, 0.3)
    assert at.startswith("1.")
    visitor.wait_for_function("__kvxray.sockets() === 0")
    until(lambda: told.rig.get("health")["viewers"] == 0)
    assert_shows(visitor, told, at)
    assert "Past" in panel(visitor, "health_line")
    course = visitor.locator(".st-key-kpi_tiles [data-key=used] .spark .stroke")
    until(lambda: "L" in (course.get_attribute("d") or ""))
    wait_for_address(visitor, f"at={at}")


def test_who_scrubs_ends_where_the_pointer_is(visitor: Page, told: ToldEngine) -> None:
    visitor.mouse.move(*place(visitor, 0.2))
    visitor.mouse.down()
    for hundredth in range(20, 81, 3):
        visitor.mouse.move(*place(visitor, hundredth / 100))
    wanted = visitor.evaluate("(({ from, to }) => from + 0.8 * (to - from))(__kvxray.time.shown())")
    visitor.mouse.up()
    visitor.wait_for_function("__kvxray.epoch() === 2")
    at = arrive(visitor)
    assert_shows(visitor, told, at)
    epoch, seq = at.split(".")
    after = told.rig.get("events", **{"from": f"{epoch}.{int(seq) + 1}"}, limit=1)["events"][0]
    times = visitor.evaluate("times => times.map(Date.parse)", [state_at(told, at)["time"], after["time"]])
    slack = 1000  # a pixel is some hundred milliseconds
    assert times[0] - slack <= wanted <= times[1] + slack


def test_requests_events_and_a_block_are_those_of_the_moment(visitor: Page, told: ToldEngine) -> None:
    at = visitor.evaluate("__kvxray.at()")
    rows = told.rig.get("requests", at=at)["requests"]
    until(lambda: all(row["request_id"] in panel(visitor, "requests_table") for row in rows[:5]))
    assert "Texts are not kept" in panel(visitor, "requests_table")
    holding = next(row for row in rows if row["blocks"])
    block = told.rig.get(f"requests/{holding['request_id']}", at=at)["block_table"][0]
    spot = visitor.evaluate("block => __kvxray.map.cellCentre(block)", block)
    visitor.mouse.click(spot["x"], spot["y"])
    until(lambda: "as it was" in panel(visitor, "inspector"))
    holders = told.rig.get(f"blocks/{block}", at=at)["holders"]
    until(lambda: all(holder["request_id"] in panel(visitor, "inspector") for holder in holders))
    mark = visitor.locator(".st-key-event_tail li.moment")
    until(lambda: at in mark.inner_text())


def test_a_step_forward_and_back_leads_to_the_same_blocks(visitor: Page, told: ToldEngine) -> None:
    start = visitor.evaluate("__kvxray.at()")
    before = visitor.evaluate("__kvxray.counts()")
    epoch, seq = start.split(".")
    for _ in range(7):
        visitor.keyboard.press(".")
    assert_shows(visitor, told, arrive(visitor, at=f"{epoch}.{int(seq) + 7}"))
    for _ in range(7):
        visitor.keyboard.press(",")
    arrive(visitor, at=start)
    assert visitor.evaluate("__kvxray.counts()") == before
    step = told.rig.get("step", at=start, by="step", n=1)
    visitor.keyboard.press(">")
    assert_shows(visitor, told, arrive(visitor, at=step["at"]))
    visitor.keyboard.press("<")
    back = told.rig.get("step", at=step["at"], by="step", n=-1)
    arrive(visitor, at=back["at"])


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_a_link_shows_the_same_picture_to_somebody_else(
    visitor: Page, chromium: Browser, told: ToldEngine, scheme: Literal["dark", "light"]
) -> None:
    at = arrive(visitor)
    wait_for_address(visitor, f"at={at}")
    other = open_page(chromium, scheme)
    other.goto(visitor.url)
    other.wait_for_function("window.__kvxray?.counts() != null")
    assert arrive(other) == at
    assert other.evaluate("__kvxray.counts()") == visitor.evaluate("__kvxray.counts()")
    assert_shows(other, told, at)
    assert other.evaluate("__kvxray.sockets()") == 0
    assert "block" in parse_qs(urlsplit(other.url).query)
    until(lambda: "as it was" in panel(other, "inspector"))
    if scheme == "dark":
        until(lambda: picture(other) == picture(visitor))
    until(lambda: cells_coloured(other, "cached", scheme) == counts_of(state_at(told, at))["cached"])
    other.context.close()


def test_two_moments_are_compared(visitor: Page, chromium: Browser, told: ToldEngine) -> None:
    second = visitor.evaluate("__kvxray.at()")
    visitor.keyboard.press("v")
    until(lambda: "Go to another to compare." in panel(visitor, "block_map"))
    assert visitor.evaluate("__kvxray.map.differing()") is None, "nothing steps back"
    first = press(visitor, 0.62)
    visitor.wait_for_function("__kvxray.map.differing() > 0")
    visitor.wait_for_function("__kvxray.beside() !== null")
    assert_shows(visitor, told, first)
    assert visitor.evaluate("__kvxray.beside()") == counts_of(state_at(told, second))
    told_apart = told.rig.get("diff", **{"from": first, "to": second})
    visitor.wait_for_function("number => __kvxray.map.differing() === number", arg=told_apart["changed"])
    until(lambda: f"{told_apart['changed']} blocks differ" in panel(visitor, "block_map"))
    wait_for_address(visitor, f"with={second}")
    assert visitor.evaluate("__kvxray.sockets()") == 0
    until(lambda: abs(foot_of(visitor, ".panel.map") - foot_of(visitor, ".panel.inspector")) < 1)
    other = open_page(chromium, "dark")
    other.goto(visitor.url)
    other.wait_for_function("number => window.__kvxray?.map?.differing() === number", arg=told_apart["changed"])
    for side in (0, 1):
        until(lambda side=side: picture(other, side) == picture(visitor, side))  # type: ignore[misc]
    assert picture(other, 0) != picture(other, 1)
    other.context.close()
    visitor.get_by_role("button", name="Swap").click()
    assert arrive(visitor, at=second) == second
    visitor.wait_for_function("counts => JSON.stringify(__kvxray.beside()) === counts", arg=json_of(told, first))
    visitor.keyboard.press("v")
    visitor.wait_for_function("__kvxray.beside() === null")
    visitor.wait_for_function("!location.search.includes('with=')")


def test_a_bookmark_leads_back(visitor: Page, told: ToldEngine) -> None:
    at = visitor.evaluate("__kvxray.at()")
    visitor.keyboard.press("b")
    visitor.get_by_label("Note").fill("before the storm")
    visitor.keyboard.press("Enter")
    (mark,) = until(lambda: told.rig.get("bookmarks")["bookmarks"])
    assert (mark["at"], mark["note"]) == (at, "before the storm")
    visitor.locator(".bookmarks li", has_text="before the storm").wait_for()
    visitor.keyboard.press("Escape")
    press(visitor, 0.9)
    visitor.keyboard.press("b")
    visitor.locator(".bookmarks li", has_text="before the storm").get_by_role("button").first.click()
    arrive(visitor, at=at)
    assert "block=" in visitor.url, "Escape closed the card and left the selection alone"
    visitor.keyboard.press("b")
    visitor.get_by_role("button", name="Remove this bookmark").click()
    until(lambda: told.rig.get("bookmarks")["bookmarks"] == [])
    visitor.keyboard.press("Escape")


def test_it_plays_to_the_end_and_offers_the_present(visitor: Page, told: ToldEngine) -> None:
    start = press(visitor, 0.7)
    visitor.get_by_role("button", name="100×").click()
    visitor.keyboard.press("p")
    visitor.wait_for_function("seq => __kvxray.seq() > seq", arg=int(start.split(".")[1]))
    visitor.wait_for_function("!__kvxray.time.playing()")
    last = told.rig.get("sources")["sources"][0]["last_seq"]
    assert_shows(visitor, told, arrive(visitor, at=last))
    visitor.locator(".st-key-time_bar .live[data-urgent]").wait_for()


def test_the_past_stays_through_a_change_of_page_and_keeps_no_socket(visitor: Page, told: ToldEngine) -> None:
    at = press(visitor, 0.75)
    for _ in range(2):
        visitor.get_by_role("link", name="Guide").click()
        visitor.get_by_role("heading", name="Guide").wait_for()
        visitor.wait_for_function("!__kvxray.time")
        visitor.evaluate(
            "() => new Promise((later) => setTimeout(later, 300))"
        )  # longer than an address waits to be written
        assert "at=" not in visitor.url
        visitor.get_by_role("link", name="Live").click()
        assert arrive(visitor) == at
        assert visitor.evaluate("__kvxray.sockets()") == 0
    assert told.rig.get("health")["viewers"] == 0


def test_a_moment_that_is_not_stored_is_refused_in_one_sentence(visitor: Page, told: ToldEngine) -> None:
    visitor.goto(f"{told.rig.url}/?at=7.5")
    visitor.wait_for_function("window.__kvxray?.status() === 'past'")
    until(lambda: "has no epoch 7" in panel(visitor, "block_map"))
    assert visitor.evaluate("__kvxray.counts()") is None
    assert visitor.evaluate("__kvxray.sockets()") == 0


@pytest.mark.parametrize(("part", "share"), [("all of it", 0.3), ("a stretch", 0.2)])
def test_a_file_of_history_opens_at_its_end_and_shows_the_same(
    visitor: Page, chromium: Browser, told: ToldEngine, tmp_path: Path, part: str, share: float
) -> None:
    at = press(visitor, share)
    wait_for_address(visitor, f"at={at}")
    seq = int(at.partition(".")[2])
    stretch = ("--from", f"1.{seq - 40}", "--to", f"1.{seq + 400}", "--format", "kvx") if part == "a stretch" else ()
    told.rig.export(tmp_path / "incident.kvx", *stretch)
    colleague = DemoRig(tmp_path)
    try:
        colleague.start_replay(tmp_path / "incident.kvx")
        last = colleague.get("sources")["sources"][0]["last_seq"]
        page = open_page(chromium, "dark")
        page.goto(colleague.url)
        page.wait_for_function("window.__kvxray?.counts() != null")
        assert arrive(page) == last
        assert page.evaluate("__kvxray.counts()") == counts_of(state_at(told, last))
        assert page.evaluate("__kvxray.sockets()") == 0
        assert not page.get_by_role("button", name="Back to the present").is_visible()
        other_moment = picture(page)
        page.goto(f"{colleague.url}/{urlsplit(visitor.url)._replace(scheme='', netloc='', path='').geturl()}")
        page.wait_for_function("at => window.__kvxray?.at() === at && __kvxray.counts()", arg=at)
        assert page.evaluate("__kvxray.counts()") == visitor.evaluate("__kvxray.counts()")
        until(lambda: picture(page) == picture(visitor))
        assert picture(page) != other_moment
        until(lambda: rows_of(page) == rows_of(visitor) != [])
        until(lambda: cells_coloured(page, "cached", "dark") == counts_of(state_at(told, at))["cached"])
        page.context.close()
    finally:
        colleague.close()


def test_history_leads_to_the_moment_of_an_event(visitor: Page, told: ToldEngine) -> None:
    history = visitor.context.new_page()
    history.goto(f"{told.rig.url}/history")
    table = history.get_by_test_id("stDataFrame").last
    table.get_by_test_id("glide-cell-0-0").wait_for(state="attached")
    newest = told.rig.get("sources")["sources"][0]["last_seq"]
    # The first row, under a head of one row; a table that is still being painted does not feel a click.
    live = opened_by(history, lambda: table.click(position={"x": 24, "y": 52}))
    assert_shows(live, told, arrive(live, at=newest))
    assert {"source": ["engine"], "at": [newest]}.items() <= parse_qs(urlsplit(live.url).query).items()
    live.close()
    restart = history.get_by_role("link", name="event 2.0")
    live = opened_by(history, restart.click)
    assert_shows(live, told, arrive(live, at="2.0"))
    live.close()
    history.close()


@pytest.mark.parametrize("height", [800, 2160])
def test_the_history_s_events_fill_a_high_window(chromium: Browser, told: ToldEngine, height: int) -> None:
    page = chromium.new_page(viewport={"width": 3840, "height": height})
    page.goto(f"{told.rig.url}/history")
    page.get_by_role("button", name="Older").wait_for()
    table = page.locator(".st-key-kx-event-table [data-testid=stDataFrameResizable]")
    page.wait_for_function(
        "least => document.querySelector('.st-key-kx-event-table canvas')?.clientHeight > least",
        arg=1000 if height > 1000 else 400,
    )
    box = table.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < height if height > 1000 else box["height"] == 420
    page.close()


def test_back_to_the_present(visitor: Page, told: ToldEngine) -> None:
    press(visitor, 0.5)
    visitor.get_by_role("button", name="Back to the present").click()
    visitor.wait_for_function("__kvxray.status() === 'live' && __kvxray.sockets() === 1")
    visitor.wait_for_function("!location.search.includes('at=')")
    told.work(5)
    told.caught_up()
    seq = int(told.rig.get("state")["seq"].split(".")[1])
    visitor.wait_for_function("seq => __kvxray.seq() === seq", arg=seq)
    assert visitor.evaluate("__kvxray.at()") is None
    until(lambda: "Live" in panel(visitor, "health_line"))
