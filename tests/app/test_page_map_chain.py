"""The map laid out by prefix chain: places, painting, hands, keys, chosen blocks and links, in a real browser."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kvxray_app.theme import DARK
from playwright.sync_api import Page

from tests.app.map_probe import ACTIVE, PIXEL, PIXEL_LOW, SHARED, ZOOM, choose, open_at, order_of, point_at
from tests.app.scripted_backend import ScriptedBackend

pytestmark = pytest.mark.browser

Mount = Callable[..., None]

CHAINS = [5, 3, 8, 1, 7, 2, 4, 6]
HELP = "inside('block_map', '#kx-map-help').textContent"
CARD = "inside('block_map', '.card b')?.textContent"
RANGE = "inside('block_map', '.range b').textContent"
LIES = "inside('block_map', '[aria-label=\"Blocks lie\"] [aria-checked=true]').textContent"

# Ids of all blocks from left to right, then down, as they lie on the page.
LAID_OUT = """number => {
  const blocks = Array.from({ length: number - 1 }, (_, at) => at + 1);
  const places = new Map(blocks.map(block => [block, __kvxray.map.cellCentre(block)]));
  const of = block => places.get(block);
  return blocks.sort((a, b) => Math.round(of(a).y - of(b).y) || of(a).x - of(b).x);
}"""


def wait_for_order(page: Page, blocks: list[int]) -> None:
    page.wait_for_function(f"blocks => String(({LAID_OUT})(blocks.length + 1)) === String(blocks)", arg=blocks)


@pytest.fixture
def chained(page: Page, backend: ScriptedBackend, painted: None) -> None:
    """The painted map, laid out by prefix."""
    backend.answers["state/order"] = order_of(CHAINS)
    choose(page, "chain")
    wait_for_order(page, CHAINS)


def many_by_prefix(page: Page, backend: ScriptedBackend) -> list[int]:
    """3,000 blocks backwards: large enough to be drawn as a picture of pixels, and to be enlarged."""
    blocks = list(range(3000, 0, -1))
    backend.answers["state/order"] = order_of(blocks)
    choose(page, "chain")
    wait_for_order(page, blocks)
    return blocks


@pytest.mark.usefixtures("chained")
def test_blocks_lie_in_the_order_of_their_prefixes_and_back_by_id(page: Page) -> None:
    assert [page.evaluate(PIXEL, block) for block in range(1, 5)] == [
        DARK.empty,
        DARK.free,
        DARK.cached,
        DARK.active,
    ]
    page.wait_for_function("location.search === '?layout=chain'")
    choose(page, "id")
    wait_for_order(page, [*range(1, 9)])
    assert page.evaluate(PIXEL, 4) == DARK.active
    page.wait_for_function("location.search === ''")


@pytest.mark.usefixtures("chained")
def test_a_delta_repaints_the_cell_of_its_block(page: Page, backend: ScriptedBackend) -> None:
    backend.set_block(1, ACTIVE, 1, 16)
    backend.send_delta([0, 1])  # the null block has no cell
    page.wait_for_function(f"({PIXEL})(1) === '{DARK.active}'")
    assert [page.evaluate(PIXEL, block) for block in (2, 3, 4, 6)] == [DARK.free, DARK.cached, DARK.active, DARK.empty]


@pytest.mark.usefixtures("chained")
def test_pointing_and_pressing_find_the_block_that_lies_there(page: Page) -> None:
    centre = point_at(page, 7)
    page.wait_for_function(f"{CARD} === 'Block 7'")
    page.mouse.click(centre["x"], centre["y"])
    page.wait_for_function("location.search.includes('block=7')")


@pytest.mark.usefixtures("chained")
def test_keys_walk_along_the_chain_and_change_the_layout(page: Page) -> None:
    page.evaluate("inside('block_map', '.over').focus()")
    for key, block in (("Home", 5), ("ArrowRight", 3), ("End", 6), ("ArrowLeft", 4)):
        page.keyboard.press(key)
        page.wait_for_function(f"{CARD} === 'Block {block}'")
    page.keyboard.press("o")
    page.wait_for_function(f"{LIES} === 'By id'")
    page.keyboard.press("ArrowRight")
    page.wait_for_function(f"{CARD} === 'Block 5'")


@pytest.mark.usefixtures("chained")
def test_the_order_rests_while_somebody_points(page: Page, backend: ScriptedBackend) -> None:
    point_at(page, 7)
    page.wait_for_function(f"{CARD} === 'Block 7'")
    other = CHAINS[::-1]
    backend.answers["state/order"] = order_of(other)
    asked = backend.asked.count("state/order")
    page.wait_for_function("number => __kvxray.map.orders() > number", arg=page.evaluate("__kvxray.map.orders()") + 1)
    assert backend.asked.count("state/order") > asked
    assert page.evaluate(LAID_OUT, 9) == CHAINS
    page.mouse.move(2, 2)
    wait_for_order(page, other)


@pytest.mark.usefixtures("painted")
def test_an_order_that_makes_no_sense_is_not_taken(page: Page, backend: ScriptedBackend) -> None:
    backend.answers["state/order"] = order_of([1, 2, 3, 4, 5, 6, 7, 7])
    choose(page, "chain")
    page.wait_for_function(
        f"{HELP} === 'The backend tells the order of blocks in a form that this page does not read.'"
    )
    assert page.evaluate(LAID_OUT, 9) == [*range(1, 9)]
    backend.answers["state/order"] = order_of(CHAINS)
    wait_for_order(page, CHAINS)
    page.wait_for_function(f"!{HELP}.includes('does not read')")


@pytest.mark.usefixtures("many")
def test_enlarged_maps_and_pictures_of_pixels_are_of_the_order_too(page: Page, backend: ScriptedBackend) -> None:
    many_by_prefix(page, backend)
    assert [page.evaluate(PIXEL_LOW, block) for block in (250, 450)] == [DARK.cached, DARK.shared]
    page.evaluate("inside('block_map', '.over').focus()")
    page.keyboard.press("End")
    page.wait_for_function(f"{CARD} === 'Block 1'")
    for _ in range(3):
        page.keyboard.press("+")
    page.keyboard.press("ArrowLeft")
    page.wait_for_function(f"{CARD} === 'Block 2'")
    page.wait_for_function(f"{ZOOM} > 3")
    backend.set_block(2, SHARED, 3, 16)
    backend.send_delta([2])
    page.wait_for_function(f"({PIXEL_LOW})(2) === '{DARK.shared}'")
    page.wait_for_function("!inside('block_map', '.minimap').hidden")


@pytest.mark.usefixtures("chained")
def test_chosen_blocks_stay_the_same_blocks_however_they_lie(page: Page, backend: ScriptedBackend) -> None:
    page.evaluate("inside('block_map', '.over').focus()")
    for key in ("Home", "ArrowRight", "Shift+ArrowRight", "Shift+ArrowRight"):
        page.keyboard.press(key)
    page.wait_for_function(f"{RANGE} === 'By prefix, block 3 to block 1'")  # 3, 8, 1
    counts = "inside('block_map', '.range-counts').innerText.trim().split(/\\s+/).join(' ')"
    assert page.evaluate(counts) == "cached 1 empty 2"
    page.wait_for_function("location.search === '?layout=chain&sel=chain-3-1'")
    backend.answers["state/order"] = order_of([3, 1, 2, 8, 4, 5, 6, 7])
    wait_for_order(page, [3, 1, 2, 8, 4, 5, 6, 7])
    assert page.evaluate(counts) == "cached 1 empty 2"
    choose(page, "id")
    wait_for_order(page, [*range(1, 9)])
    assert page.evaluate(counts) == "cached 1 empty 2"
    assert page.evaluate(PIXEL, 3) == DARK.cached  # the others step back
    assert page.evaluate(PIXEL, 4) != DARK.active


def test_permalink_opens_on_its_layout_and_chosen_blocks(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    backend.answers["state/order"] = order_of(CHAINS)
    open_at(page, backend, "layout=chain&sel=chain-8-2")
    mount("block_map")
    wait_for_order(page, CHAINS)
    page.wait_for_function("inside('block_map', '.range .muted').textContent === '4 blocks'")  # 8, 1, 7, 2
    assert page.evaluate(LIES) == "By prefix"
    page.wait_for_function("location.search === '?layout=chain&sel=chain-8-2'")


def test_chosen_blocks_that_are_not_there_are_let_go(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    backend.answers["state/order"] = order_of(CHAINS)
    open_at(page, backend, "sel=chain-8-900")
    mount("block_map")
    page.wait_for_function("location.search === ''")
    assert page.evaluate("inside('block_map', '.range').hidden")
