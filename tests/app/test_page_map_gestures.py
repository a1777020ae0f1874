"""What pointing, keys, wheel and dragging do on the block map, in a real browser."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kvxray_app.theme import DARK
from playwright.sync_api import Page

from tests.app.map_probe import LEAKED, LEAKED_ONLY, PIXEL_LOW, SHARED, ZOOM, block_answer, point_at
from tests.app.scripted_backend import ScriptedBackend

pytestmark = pytest.mark.browser

Mount = Callable[..., None]

# The block nearest to the middle of the stage.
MIDDLE = """() => {
  const { x, y, width, height } = inside("block_map", ".stage").getBoundingClientRect();
  let best = { far: Infinity };
  for (let block = 1; block < 3000; block++) {
    const at = __kvxray.map.cellCentre(block);
    const far = Math.hypot(at.x - x - width / 2, at.y - y - height / 2);
    if (far < best.far) best = { far, block };
  }
  return best.block;
}"""


@pytest.mark.usefixtures("painted")
def test_card_tells_how_many_of_its_holders_have_ended(page: Page, backend: ScriptedBackend) -> None:
    for block, flags, words in (
        (5, LEAKED, "a holder has ended and still holds it"),
        (5, LEAKED | LEAKED_ONLY, "all its holders have ended"),
    ):
        backend.set_block(block, SHARED, 3, 16, flags)
        backend.send_delta([block])
        point_at(page, block)
        page.wait_for_function("words => inside('block_map', '.card').textContent.includes(words)", arg=words)


@pytest.mark.usefixtures("painted")
def test_pointing_tells_what_a_block_is(page: Page) -> None:
    point_at(page, 5)
    page.wait_for_function("!inside('block_map', '.card').hidden")
    card = page.evaluate("inside('block_map', '.card').innerText")
    assert card.split("\n")[-2:] == ["held by 3", "16 of 16 slots written"]
    assert card.startswith("Block 5")
    page.mouse.move(2, 2)
    page.wait_for_function("inside('block_map', '.card').hidden")


@pytest.mark.usefixtures("painted")
def test_card_of_a_block_tells_who_holds_it_and_since_when(page: Page, backend: ScriptedBackend) -> None:
    backend.answers["blocks/5"] = block_answer(5, state="shared", holders=("a", "b", "c", "d", "e", "a"))
    point_at(page, 5)
    card = "inside('block_map', '.card').innerText"
    page.wait_for_function(f"{card}.includes('a, b, c and 2 more')")
    lines = page.evaluate(card).split("\n")
    assert lines[-2:] == ["allocated 3 s ago", "hash abababab…abab"]


@pytest.mark.usefixtures("painted")
def test_click_selects_and_the_address_names_the_block(page: Page) -> None:
    centre = page.evaluate("__kvxray.map.cellCentre(4)")
    page.mouse.click(centre["x"], centre["y"])
    page.wait_for_function("location.search === '?block=4'")


@pytest.mark.usefixtures("painted")
def test_keys_move_select_and_let_go(page: Page) -> None:
    page.evaluate("inside('block_map', '.over').focus()")
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    assert page.evaluate("location.search") == "?block=3"
    assert page.evaluate("inside('block_map', '.sr-only').textContent").startswith("Block 3, cached")
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    assert page.evaluate("location.search") == "?block=8"
    page.keyboard.press("Escape")
    assert page.evaluate("location.search") == ""


@pytest.mark.usefixtures("painted")
def test_card_follows_the_keyboard_until_the_pointer_moves(page: Page) -> None:
    title = "inside('block_map', '.card b').textContent"
    centre = point_at(page, 5)
    page.wait_for_function(f"{title} === 'Block 5'")
    page.evaluate("inside('block_map', '.over').focus()")
    page.keyboard.press("End")
    page.wait_for_function(f"{title} === 'Block 8'")
    page.keyboard.press("ArrowLeft")
    page.wait_for_function(f"{title} === 'Block 7'")
    page.mouse.move(centre["x"] + 3, centre["y"])
    page.wait_for_function(f"{title} === 'Block 5'")


@pytest.mark.usefixtures("painted")
def test_escape_lets_go_anywhere_but_where_somebody_types(page: Page) -> None:
    centre = page.evaluate("__kvxray.map.cellCentre(4)")
    page.mouse.click(centre["x"], centre["y"])
    page.wait_for_function("location.search === '?block=4'")
    page.evaluate("document.body.appendChild(document.createElement('input')).focus()")
    page.keyboard.press("Escape")
    assert page.evaluate("location.search") == "?block=4"
    page.evaluate("document.querySelector('input').remove()")
    page.keyboard.press("Escape")
    page.wait_for_function("location.search === ''")


@pytest.mark.usefixtures("many")
def test_keys_enlarge_the_map_and_what_the_cursor_is_on_stays_in_sight(page: Page) -> None:
    page.evaluate("inside('block_map', '.over').focus()")
    for _ in range(3):
        page.keyboard.press("+")
    zoom = page.evaluate(ZOOM)
    assert zoom > 3
    page.wait_for_function("!inside('block_map', '.minimap').hidden")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    page.wait_for_function("inside('block_map', '.card b')?.textContent === 'Block 2'")
    top_left = page.evaluate(
        "(() => { const b = inside('block_map', '.stage').getBoundingClientRect(); return [b.x, b.y] })()"
    )
    centre = page.evaluate("__kvxray.map.cellCentre(2)")
    assert centre["x"] > top_left[0]
    assert centre["y"] > top_left[1]
    page.keyboard.press("0")
    page.wait_for_function(f"{ZOOM} === 1")


@pytest.mark.usefixtures("many")
def test_wheel_enlarges_around_the_pointer_once_the_map_has_the_focus(page: Page) -> None:
    centre = point_at(page, 700)
    page.evaluate("addEventListener('wheel', event => { window.kept = event.defaultPrevented })")
    page.mouse.wheel(0, -300)
    page.wait_for_function("window.kept === false")  # the page's own: nothing is focused
    assert page.evaluate(ZOOM) == 1
    page.evaluate("inside('block_map', '.over').focus()")
    page.mouse.wheel(0, -300)
    page.wait_for_function(f"{ZOOM} > 1.5")
    page.wait_for_function("inside('block_map', '.minimap').hidden === false")
    moved = page.evaluate("__kvxray.map.cellCentre(700)")
    assert abs(moved["x"] - centre["x"]) <= 3
    assert abs(moved["y"] - centre["y"]) <= 3


@pytest.mark.usefixtures("many")
def test_enlarged_map_is_dragged_and_stays_so_through_updates_and_reruns(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    page.evaluate("inside('block_map', '.over').focus()")
    for _ in range(4):
        page.keyboard.press("+")
    block = page.evaluate(MIDDLE)
    before = point_at(page, block)
    page.mouse.down()
    page.mouse.move(before["x"] + 30, before["y"] + 20, steps=3)
    page.mouse.move(before["x"] + 80, before["y"] + 50, steps=3)
    page.mouse.up()
    after = page.evaluate("block => __kvxray.map.cellCentre(block)", block)
    assert abs(after["x"] - before["x"] - 80) <= 3
    assert abs(after["y"] - before["y"] - 50) <= 3
    assert "block=" not in page.evaluate("location.search"), "a drag selects nothing"
    part = page.evaluate("__kvxray.map.part()")
    backend.set_block(block, SHARED, 7, 16)
    backend.send_delta([block])
    mount("block_map")
    page.wait_for_function(f"({PIXEL_LOW})({block}) === '{DARK.shared}'")
    assert page.evaluate("__kvxray.map.part()") == part
