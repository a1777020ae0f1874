"""A person opens the demo: the map tells the truth, survives engine and backend, and leaves nothing behind.

One story in the order it happens, on one demo with the tiny model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
from playwright.sync_api import Browser, Page

from tests.app.browser import PATIENCE_MS
from tests.e2e.demo_rig import DemoRig, until
from tests.e2e.pages import Tab

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoRig]:
    rig = DemoRig(tmp_path_factory.mktemp("demo"))
    rig.start_demo()
    yield rig
    rig.close()


@pytest.fixture(scope="module")
def visitor(chromium: Browser, demo: DemoRig) -> Iterator[Page]:
    """One browser tab for the whole story; every address it asked for is kept in `page.asked`."""
    context = chromium.new_context(viewport={"width": 1280, "height": 1000}, color_scheme="dark")
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("websocket", lambda websocket: asked.append(websocket.url))
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.asked = asked  # type: ignore[attr-defined]
    page.goto(demo.url)
    wait_until_live(page)
    yield page
    context.close()
    assert not errors, "a script on the page failed"


def wait_until_live(page: Page) -> None:
    page.wait_for_function("window.__kvxray?.status() === 'live' && __kvxray.counts() !== null")


def panel(page: Page, name: str) -> str:
    """Text of a component; empty while it is not there."""
    return page.locator(f".st-key-{name} .kx").inner_text()


def counts_of(state: dict[str, Any]) -> dict[str, int]:
    return {name: figure["value"] for name, figure in state["counts"].items()}


def state_shown(page: Page, demo: DemoRig) -> dict[str, Any]:
    """The state of a frozen engine, once all it had sent has arrived on the page too; until then nothing."""
    state: dict[str, Any] = demo.get("state")
    shown = page.evaluate("[`${__kvxray.epoch()}.${__kvxray.seq()}`, __kvxray.counts()]")
    return state if shown == [state["seq"], counts_of(state)] == [demo.get("state")["seq"], shown[1]] else {}


def counts_in_legend(page: Page) -> dict[str, int]:
    """What a person reads above the map, states without a block left out."""
    found = re.findall(r"(unknown|empty|free|cached|active|shared)\s+([\d,]+)", panel(page, "block_map"))
    return {name: int(count.replace(",", "")) for name, count in found if count != "0"}


def test_blocks_move(visitor: Page) -> None:
    before = visitor.evaluate("__kvxray.seq()")
    visitor.wait_for_function("before => __kvxray.seq() > before + 100", arg=before)
    visitor.wait_for_function("__kvxray.counts().active > 0 && __kvxray.counts().shared > 0")


def test_counts_on_the_canvas_equal_the_state(visitor: Page, demo: DemoRig) -> None:
    demo.freeze_engine()
    try:
        state = until(lambda: state_shown(visitor, demo))
        counts = counts_of(state)
        assert visitor.evaluate("__kvxray.counts()") == counts
        assert sum(counts.values()) == state["usable_blocks"]
        until(lambda: counts_in_legend(visitor) == {name: count for name, count in counts.items() if count})
    finally:
        demo.thaw_engine()


def test_capacity_is_what_the_engine_says_it_is(visitor: Page, demo: DemoRig) -> None:
    told = demo.get("sources")["sources"][0]["descriptor"]
    one_layer = 2 * 16 * 2 * 16  # keys and values of 16 tokens, in 2 kv heads of 16 numbers
    assert told["bytes_per_block"] == 2 * told["bytes_per_block_fp16"] == 2 * one_layer * 4
    assert "fp32: 0.5× the blocks of fp16" in panel(visitor, "kpi_tiles")


def test_click_on_a_block_tells_its_holders(visitor: Page, demo: DemoRig) -> None:
    demo.freeze_engine()
    try:
        request = next(row for row in demo.get("requests")["requests"] if row["blocks"])
        block = demo.get(f"requests/{request['request_id']}")["block_table"][0]
        holders = demo.get(f"blocks/{block}")["holders"]
        centre = visitor.evaluate("block => __kvxray.map.cellCentre(block)", block)
        visitor.mouse.click(centre["x"], centre["y"])
        until(lambda: all(holder["request_id"] in panel(visitor, "inspector") for holder in holders))
        shown = panel(visitor, "inspector")
        assert f"Block {block}" in shown
        assert "up to date" in shown
        assert f"block={block}" in visitor.url
    finally:
        demo.thaw_engine()


def test_request_tells_the_text_it_generates(visitor: Page, demo: DemoRig) -> None:
    table = visitor.locator(".st-key-requests_table")

    def is_shown() -> bool:
        if "request=" not in visitor.url:
            running = table.locator("tr:has([data-status=running])")
            if running.count():
                running.first.click()
            return False
        head = table.locator(".generated-head").inner_text()
        if "aborted" in head or "no longer" in head:  # before it had a text: take another
            table.get_by_role("button", name="Close the text").click()
        return ("generating" in head or "finished" in head) and bool(table.locator(".text").inner_text().strip())

    until(is_shown)


def test_changing_pages_leaves_no_socket_open(visitor: Page, demo: DemoRig) -> None:
    tab = Tab(visitor)
    selected = visitor.evaluate("new URLSearchParams(location.search).get('request')")
    assert selected, "the test before chose a request"
    for title in tab.titles():
        tab.turn_to(title)
        until(lambda: demo.get("health")["viewers"] == visitor.evaluate("__kvxray.sockets()"))
        tab.turn_to("Guide")  # nothing on it is live
        visitor.wait_for_function("__kvxray.sockets() === 0")
        until(lambda: demo.get("health")["viewers"] == 0)
    for _ in range(3):
        tab.turn_to("History")
        tab.turn_to("Live")
    wait_until_live(visitor)
    visitor.wait_for_function("__kvxray.sockets() === 1")
    until(lambda: demo.get("health")["viewers"] == 1)
    # The selection survives a page change. The page is asked: Playwright's address is as old as its last call.
    visitor.wait_for_function("name => new URLSearchParams(location.search).get('request') === name", arg=selected)


def test_killed_engine_is_stale_and_its_restart_a_new_epoch(visitor: Page, demo: DemoRig) -> None:
    assert visitor.evaluate("__kvxray.epoch()") == 1
    demo.kill_engine()
    until(lambda: "Stale since" in panel(visitor, "health_line"))
    assert "as of" in panel(visitor, "block_map")
    until(lambda: "Start it again" in panel(visitor, "findings_banner"))
    demo.start_engine()
    visitor.wait_for_function("__kvxray.epoch() === 2 && __kvxray.status() === 'live'")
    until(lambda: "Live" in panel(visitor, "health_line"))


def test_history_survives_the_backend(visitor: Page, demo: DemoRig) -> None:
    stored = demo.get("health")["database"]["stored_events"]
    engine = demo.processes.pop()
    demo.stop()
    visitor.wait_for_function("__kvxray.status() === 'lost'")
    demo.start_backend()
    demo.processes.append(engine)
    visitor.goto(f"{demo.url}/history")
    visitor.get_by_role("heading", name="Epochs").wait_for()
    epochs = demo.get("sources")["sources"][0]["epochs"]
    assert [epoch["epoch"] for epoch in epochs][:2] == [1, 2]
    assert demo.get("health")["database"]["stored_events"] >= stored
    until(lambda: visitor.get_by_test_id("stMetricValue").all_inner_texts()[1:2] >= ["2"])
    visitor.goto(demo.url)
    wait_until_live(visitor)


def test_no_request_left_the_origin(visitor: Page) -> None:
    asked: list[str] = visitor.asked  # type: ignore[attr-defined]
    assert len(asked) > 50
    hosts = {urlsplit(address).hostname for address in asked if not address.startswith(("data:", "blob:"))}
    assert hosts == {"127.0.0.1"}


def test_leak_is_named_with_its_request_and_blocks(chromium: Browser, tmp_path: Path) -> None:
    rig = DemoRig(tmp_path, "--leak", "--kv-cache-dtype", "int4")
    try:
        rig.start_demo()
        page = chromium.new_page(viewport={"width": 1280, "height": 1000})
        page.set_default_timeout(PATIENCE_MS)
        page.goto(rig.url)
        wait_until_live(page)
        assert "int4: 2.7× the blocks of fp16" in panel(page, "kpi_tiles")
        leaks = until(lambda: [found for found in rig.get("findings")["findings"] if found["kind"] == "leak"])
        request = leaks[0]["subjects"]["requests"][0]
        until(lambda: request in panel(page, "findings_banner"))
        page.wait_for_function("__kvxray.leaked() > 0")
        page.close()
    finally:
        rig.close()


def test_the_demo_ends_when_told_to_and_leaves_no_process(tmp_path: Path) -> None:
    rig = DemoRig(tmp_path)
    try:
        rig.start_demo()
        family = psutil.Process(rig.processes[-1].pid).children(recursive=True)
        assert family
        rig.stop()
        until(lambda: not any(member.is_running() for member in family))
    finally:
        rig.close()


def test_the_engine_ends_when_the_demo_is_killed(tmp_path: Path) -> None:
    rig = DemoRig(tmp_path)
    try:
        rig.start_demo()
        demo = rig.processes.pop()
        family = psutil.Process(demo.pid).children(recursive=True)
        demo.kill()
        demo.wait(90)
        until(lambda: not any(member.is_running() for member in family))
    finally:
        rig.close()
