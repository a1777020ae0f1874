"""The whole demo in a real browser: what the page shows is what the API says, through a killed engine and restarts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.app.browser import CHROMIUM_FLAGS, find_chromium
from tests.e2e.whole_demo import WholeDemo, whole_demo

pytestmark = pytest.mark.browser

STATES = ("empty", "free", "cached", "active", "shared", "unknown")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    executable = find_chromium()
    if executable is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("needs Chromium: install the package chromium")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=executable, args=CHROMIUM_FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[WholeDemo]:
    with whole_demo(tmp_path) as prepared:
        yield prepared


@pytest.fixture
def page(browser: Browser, demo: WholeDemo) -> Iterator[Page]:
    """A page that fails its test when a request leaves the origin or a script fails."""
    opened = browser.new_page(viewport={"width": 1440, "height": 1000})
    strangers: list[str] = []
    errors: list[str] = []
    own = (demo.url, demo.url.replace("http", "ws", 1), "data:", "blob:")
    opened.on("request", lambda request: None if request.url.startswith(own) else strangers.append(request.url))
    opened.on("websocket", lambda one: None if one.url.startswith(own) else strangers.append(one.url))
    opened.on("pageerror", lambda error: errors.append(str(error)))
    yield opened
    opened.close()
    assert not strangers, "a request left the origin"
    assert not errors


def open_live(page: Page, demo: WholeDemo) -> None:
    page.goto(demo.url)
    page.wait_for_function("window.__kvxray?.status() === 'live' && window.__kvxray.counts() !== null", timeout=30_000)


def counts_of_api(demo: WholeDemo) -> tuple[str, dict[str, int]]:
    state = demo.get("/api/state")
    return state["seq"], {name: figure["value"] for name, figure in state["counts"].items()}


def counts_of_page(page: Page) -> tuple[str, dict[str, int]]:
    shown = page.evaluate("({seq: `${__kvxray.epoch()}.${__kvxray.seq()}`, counts: __kvxray.counts()})")
    return shown["seq"], {name: shown["counts"].get(name, 0) for name in STATES}


def counts_of_legend(page: Page) -> dict[str, int]:
    """What a person reads above the map."""
    text = page.get_by_role("region", name="Block map").locator(".panel-head").inner_text()
    found = re.findall(r"(empty|free|cached|active|shared|unknown)\s+([\d,]+)", text)
    return {name: int(count.replace(",", "")) for name, count in found}


def test_the_map_shows_what_the_api_says_while_blocks_move(page: Page, demo: WholeDemo) -> None:
    demo.start_demo()
    open_live(page, demo)
    compared: set[str] = set()
    for _ in range(600):
        seq, expected = counts_of_api(demo)
        shown_seq, shown = counts_of_page(page)
        if seq == shown_seq:
            assert shown == {name: expected[name] for name in STATES}
            assert sum(shown.values()) == demo.get("/api/state")["usable_blocks"]
            compared.add(seq)
        if len(compared) >= 3:
            break
        page.wait_for_timeout(20)
    assert len(compared) >= 3, "map and API were never seen at the same event"


def test_a_click_tells_who_holds_a_block(page: Page, demo: WholeDemo) -> None:
    demo.start_demo()
    open_live(page, demo)
    demo.wait(lambda: any(one["blocks"] for one in demo.get("/api/requests?status=running")["requests"]))
    block = click_a_held_block(page, demo)
    inspector = page.get_by_role("region", name="Inspector")
    expect(inspector).to_contain_text(f"Block {block}")
    expect(inspector).to_contain_text("agent-")
    expect(inspector).to_contain_text("BlockAllocated")
    assert f"block={block}" in page.url


def click_a_held_block(page: Page, demo: WholeDemo) -> int:
    request = next(one for one in demo.get("/api/requests?status=running")["requests"] if one["blocks"])
    block = demo.get(f"/api/requests/{request['request_id']}")["block_table"][0]
    at = page.evaluate(f"__kvxray.map.cellCentre({block})")
    page.mouse.click(at["x"], at["y"])
    return int(block)


def test_a_killed_engine_is_stale_and_a_restarted_one_a_new_epoch_with_its_history_kept(
    page: Page, demo: WholeDemo
) -> None:
    running = demo.start_demo()
    open_live(page, demo)
    block = click_a_held_block(page, demo)
    demo.kill_engine_of(running)
    health = page.get_by_role("region", name="Stream health")
    expect(health).to_contain_text(re.compile("stale", re.I), timeout=15_000)
    expect(health).to_contain_text(re.compile(r"since|for \d", re.I))
    assert demo.source()["state"] == "stale"
    # Nothing moves any more, so page and API must agree to the last block and holder.
    seq, expected = counts_of_api(demo)
    page.wait_for_function(f"`${{__kvxray.epoch()}}.${{__kvxray.seq()}}` === '{seq}'")
    assert counts_of_page(page)[1] == {name: expected[name] for name in STATES}
    assert counts_of_legend(page).items() <= expected.items()
    inspector = page.get_by_role("region", name="Inspector")
    for holder in demo.get(f"/api/blocks/{block}")["holders"][:3]:
        expect(inspector).to_contain_text(holder["request_id"])

    demo.start_engine()
    page.wait_for_function("__kvxray.epoch() === 2 && __kvxray.status() === 'live'", timeout=40_000)
    expect(health).to_contain_text("epoch 2")
    expect(health).not_to_contain_text(re.compile("stale", re.I))

    demo.stop(running)
    demo.start_serve()
    page.goto(f"{demo.url}/history")
    for epoch in demo.source()["epochs"]:
        assert epoch["first_seq"] is not None
    assert [one["epoch"] for one in demo.source()["epochs"]][:2] in ([1, 2], [2, 1])
    kinds = {finding["kind"] for finding in demo.get("/api/findings?state=all")["findings"]}
    assert {"stale", "restart"} <= kinds
    old = demo.get("/api/events?from=1.0&limit=5")["events"]
    assert old[0]["seq"].startswith("1.")
    expect(page.get_by_text("Epochs", exact=True).first).to_be_visible(timeout=15_000)


def test_pages_change_back_and_forth_without_a_socket_left_open(page: Page, demo: WholeDemo) -> None:
    demo.start_demo()
    open_live(page, demo)
    for _ in range(3):
        page.get_by_role("link", name="History").click()
        expect(page.get_by_text("Stored events")).to_be_visible(timeout=15_000)
        page.wait_for_function("__kvxray.sockets() === 0")
        demo.wait(lambda: demo.get("/api/health")["viewers"] == 0)
        page.get_by_role("link", name="Live").click()
        page.wait_for_function("__kvxray.sockets() === 1 && __kvxray.status() === 'live'", timeout=15_000)
    assert demo.get("/api/health")["viewers"] == 1
    page.goto("about:blank")
    demo.wait(lambda: demo.get("/api/health")["viewers"] == 0)


def test_a_leak_is_named_with_its_blocks_and_request_within_10_seconds(page: Page, demo: WholeDemo) -> None:
    demo.start_demo("--leak")
    open_live(page, demo)

    def aborted() -> list[str]:
        requests = demo.get("/api/requests?status=aborted&limit=200")["requests"]
        return [one["request_id"] for one in requests if one["blocks"]]

    demo.wait(lambda: bool(aborted()), within_s=90)
    request_id = aborted()[0]
    page.get_by_text(re.compile(rf"Request {request_id}, aborted .* still holds \d+ blocks")).first.wait_for(
        timeout=10_000
    )
    finding = next(
        one for one in demo.get("/api/findings?state=open")["findings"] if request_id in one["subjects"]["requests"]
    )
    assert finding["subjects"]["blocks"]
    assert page.evaluate("__kvxray.leaked()") > 0


def test_the_demo_ends_cleanly_and_leaves_no_process(demo: WholeDemo) -> None:
    running = demo.start_demo()
    import psutil

    children = psutil.Process(running.pid).children(recursive=True)
    assert demo.stop(running) == 0
    assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
