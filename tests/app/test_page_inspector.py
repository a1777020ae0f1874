"""The inspector in a real browser: one block in full, beside the map."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kvxray_app.theme import DARK
from playwright.sync_api import Page

from tests.app.map_probe import ACTIVE, PIXEL_LOW, SHARED, block_answer, open_at
from tests.app.scripted_backend import ScriptedBackend

pytestmark = pytest.mark.browser

Mount = Callable[..., None]


def test_permalink_opens_on_its_block(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    open_at(page, backend, "block=6")
    backend.answers["blocks/6"] = block_answer(6)
    mount("inspector")
    page.wait_for_function("inside('inspector', 'h2').textContent === 'Block 6'")
    page.wait_for_function("inside('inspector', '.holders').textContent.includes('agent-1')")


def test_inspector_shows_the_maps_state_and_asks_again_for_the_rest(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    backend.set_block(6, ACTIVE, 1, 16)
    backend.answers["blocks/6"] = block_answer(6)
    mount("block_map")
    mount("inspector")
    centre = page.evaluate("__kvxray.map.cellCentre(6)")
    page.mouse.click(centre["x"], centre["y"])
    freshness = "inside('inspector', '.freshness').textContent"
    page.wait_for_function(f"{freshness} === 'up to date'")

    backend.set_block(6, SHARED, 2, 16)
    backend.send_delta([6])
    page.wait_for_function("inside('inspector', '.state').textContent === 'shared'")
    page.wait_for_function(f"{freshness} === 'catching up'")
    backend.answers["blocks/6"] = block_answer(6, state="shared", holders=("agent-1", "agent-2"))
    backend.send_delta([6])
    page.wait_for_function(f"{freshness} === 'up to date'")
    assert "agent-2" in page.evaluate("inside('inspector', '.holders').textContent")


def test_nothing_is_called_up_to_date_or_idle_while_nobody_is_heard(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    backend.set_block(6, ACTIVE, 1, 16)
    backend.answers["blocks/6"] = block_answer(6)
    page.evaluate("history.replaceState(null, '', '?block=6')")
    mount("block_map")
    mount("inspector")
    freshness = "inside('inspector', '.freshness').textContent"
    readout = "inside('block_map', '.readout').textContent"
    page.wait_for_function(f"{freshness} === 'up to date'")
    backend.source_state = "stale"
    backend.send_summary()
    page.wait_for_function(f"{freshness} === 'as last heard' && {readout} === 'event 1.100'")
    backend.source_state = "connected"
    backend.send_summary()
    page.wait_for_function(f"{freshness} === 'up to date'")
    backend.hang_up()
    page.wait_for_function(f"{freshness} === 'as last heard' && {readout} === 'event 1.100'")


def test_a_fault_of_the_server_is_told_and_asked_again_by_itself(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    backend.set_block(6, ACTIVE, 1, 16)
    backend.answers["blocks/6"] = block_answer(6)
    page.route("**/api/blocks/6?*", lambda route: route.fulfill(status=502, body="Bad Gateway"))
    page.evaluate("history.replaceState(null, '', '?block=6')")
    mount("inspector")
    page.wait_for_function("inside('inspector', '.kx, section').textContent.includes('The backend answered 502.')")
    page.unroute("**/api/blocks/6?*")
    page.wait_for_function("inside('inspector', '.freshness').textContent === 'up to date'")
    assert "agent-1" in page.evaluate("inside('inspector', '.holders').textContent")


def test_inspector_lights_up_the_chain_of_its_block(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    backend.set_block(6, ACTIVE, 1, 16)
    backend.answers["blocks/6"] = block_answer(6)
    backend.answers["blocks/6/chain"] = {"block_id": 6, "before": [2, 4, 6], "after": [7]}
    open_at(page, backend, "block=6")
    mount("block_map")
    mount("inspector")
    page.wait_for_function("inside('inspector', '.chain') && !inside('inspector', '.chain').hidden")
    before = page.evaluate(PIXEL_LOW, 5)
    page.evaluate("inside('inspector', '.chain button').click()")
    page.wait_for_function("inside('block_map', '.lit').textContent.startsWith('chain of block 6 · 4 blocks')")
    assert "3 up to it, 1 block beyond" in page.evaluate("inside('inspector', '.chain').textContent")
    page.wait_for_function(f"({PIXEL_LOW})(5) !== '{before}'")
    assert page.evaluate(PIXEL_LOW, 6) == DARK.active
    page.evaluate("inside('inspector', '.chain button').click()")
    page.wait_for_function(f"({PIXEL_LOW})(5) === '{before}'")


def test_inspector_says_in_the_backends_words_what_it_cannot_show(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    open_at(page, backend, "block=777")
    mount("inspector")
    page.wait_for_function("inside('inspector', '.problem').textContent === 'There is no such thing.'")
    assert page.evaluate("inside('inspector', '.body').hidden"), "nothing but the reason"


def test_inspector_says_what_the_null_block_is(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    open_at(page, backend, "block=0")
    backend.answers["blocks/0"] = block_answer(0)
    mount("inspector")
    page.wait_for_function("inside('inspector', '.problem').textContent.startsWith('This is the null block')")


def test_inspector_says_how_many_holders_have_ended_and_what_is_missing(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    backend.set_block(6, SHARED, 2, 16, flags=1)
    answer = block_answer(6, state="shared", holders=("agent-1", "agent-2"))
    holders: list[dict[str, object]] = answer["holders"]  # type: ignore[assignment]
    holders[0] |= {"status": "aborted", "leaked": True}
    backend.answers["blocks/6"] = answer
    open_at(page, backend, "block=6")
    mount("inspector")
    words = "1 of 2 holders has ended and still holds it; the others live."
    page.wait_for_function("words => inside('inspector', '.meaning').textContent === words", arg=words)
    assert "none, first block of its prompt" in page.evaluate("inside('inspector', 'dl').textContent")
