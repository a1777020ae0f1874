"""Chosen blocks of the map and links to what it shows, in a real browser."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Request

from tests.app.map_probe import ACTIVE, SHARED, ZOOM, choose, details_of, open_at
from tests.app.scripted_backend import ScriptedBackend

pytestmark = pytest.mark.browser

Mount = Callable[..., None]


def test_permalink_opens_on_its_part_mode_and_range(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    backend.resize(3001)
    open_at(page, backend, "mode=references&sel=300-200&zoom=4,0.25,0.25")
    mount("block_map")
    page.wait_for_function("__kvxray.map.cellCentre(1) !== null")
    assert page.evaluate("__kvxray.map.part()") == {"zoom": 4, "x": pytest.approx(0.25), "y": pytest.approx(0.25)}
    page.wait_for_function("inside('block_map', '.range b').textContent === 'Blocks 200 to 300'")
    assert (
        page.evaluate("inside('block_map', '[aria-label=\"Colours tell\"] [aria-checked=true]').textContent")
        == "References"
    )


@pytest.mark.parametrize(
    "query", ["mode=colour", "layout=tree", "sel=9", "sel=a-b", "sel=chain-9", "zoom=0,1,1", "zoom=4,2,0", "zoom=x"]
)
def test_nonsense_in_the_address_is_left_aside(page: Page, backend: ScriptedBackend, mount: Mount, query: str) -> None:
    open_at(page, backend, query)
    mount("block_map")
    page.wait_for_function("location.search === ''")
    page.wait_for_function(f"{ZOOM} === 1")
    assert page.evaluate("inside('block_map', '.range').hidden")


@pytest.mark.usefixtures("many")
def test_dragging_marks_a_range_that_is_summed_up_and_linked(page: Page) -> None:
    first, last = (page.evaluate("block => __kvxray.map.cellCentre(block)", block) for block in (150, 349))
    page.mouse.move(first["x"], first["y"])
    page.mouse.down()
    page.mouse.move(last["x"], last["y"], steps=5)
    page.mouse.up()
    page.wait_for_function("inside('block_map', '.range b').textContent === 'Blocks 150 to 349'")
    card = page.evaluate("inside('block_map', '.range').innerText")
    assert "200 blocks" in card
    assert [part.strip() for part in ("free 50", "cached 100", "active 50") if part not in card] == []
    page.wait_for_function("location.search === '?sel=150-349'")
    page.keyboard.press("Escape")
    page.wait_for_function("location.search === ''")


@pytest.mark.usefixtures("many")
def test_keyboard_marks_a_range_with_shift(page: Page) -> None:
    page.evaluate("inside('block_map', '.over').focus()")
    for key in ("Home", "ArrowRight", "Shift+ArrowRight", "Shift+ArrowRight", "Shift+ArrowRight"):
        page.keyboard.press(key)
    page.wait_for_function("inside('block_map', '.range b').textContent === 'Blocks 2 to 5'")


def drag(page: Page, first: int, last: int) -> None:
    """From one block to another."""
    begin, end = (page.evaluate("block => __kvxray.map.cellCentre(block)", block) for block in (first, last))
    page.mouse.move(begin["x"], begin["y"])
    page.mouse.down()
    page.mouse.move(end["x"], end["y"], steps=5)
    page.mouse.up()


HELD = "inside('block_map', '.range-held').innerText.replaceAll(/\\s+/g, ' ')"


@pytest.mark.usefixtures("painted")
def test_a_range_says_who_holds_its_blocks_and_how_sure_that_is(page: Page, backend: ScriptedBackend) -> None:
    several = 2**32 - 2
    for block in (6, 7, 8):
        backend.set_block(block, ACTIVE, 1, 16)
    backend.send_delta([6, 7, 8])
    backend.answers["state/details"] = details_of(backend, {}, {4: 7, 5: several, 6: 8, 7: 8, 8: 9})
    drag(page, 3, 8)
    page.wait_for_function(f"{HELD} === 'held by agent-8 2 agent-7 1 holder 9 1 several at once 1'")
    assert page.evaluate("inside('block_map', '.sure').title").startswith("Exact")
    drag(page, 4, 7)
    page.wait_for_function(f"{HELD} === 'held by agent-8 2 agent-7 1 several at once 1'")
    backend.set_block(4, SHARED, 2, 16)  # by whom the next answer tells
    backend.answers["state/details"] = details_of(backend, {}, {5: several, 6: 8, 7: 8})
    backend.send_delta([4])
    page.wait_for_function(f"{HELD} === 'held by agent-8 2 several at once 1 not known 1'")
    drag(page, 1, 3)
    page.wait_for_function(f"{HELD} === 'held by nobody'")


SHARERS = "inside('block_map', '.range-shared').innerText.replaceAll(/\\s+/g, ' ').trim()"


@pytest.mark.usefixtures("painted")
def test_a_range_names_those_who_share_most_of_its_blocks(page: Page, backend: ScriptedBackend) -> None:
    first_set, several = 2**31, 2**32 - 2
    for block in (4, 5, 6, 7, 8):
        backend.set_block(block, SHARED, 2, 16)
    backend.send_delta([4, 5, 6, 7, 8])
    holders = {4: first_set, 5: first_set, 6: first_set + 1, 7: first_set + 1, 8: several}
    sets = [[8, 10], [7, 10, 11]]
    backend.answers["state/details"] = details_of(backend, {}, holders, together=sets)
    drag(page, 4, 7)
    page.wait_for_function(f"{HELD} === 'held by several at once 4'")
    page.wait_for_function(f"{SHARERS} === 'shared by agent-10 4 agent-8 2 agent-7 2 1 more'")
    drag(page, 3, 8)  # by whom the last is held was not told
    page.wait_for_function(f"{SHARERS} === 'shared by agent-10 4 agent-8 2 agent-7 2 1 more not named 1'")
    drag(page, 1, 3)
    page.wait_for_function("inside('block_map', '.range-shared').hidden")


@pytest.mark.usefixtures("painted")
def test_those_who_share_are_asked_for_only_while_a_range_is_marked(page: Page, backend: ScriptedBackend) -> None:
    backend.answers["state/details"] = details_of(backend, {}, {4: 7})

    def is_details(request: Request) -> bool:
        return "/state/details" in request.url

    with page.expect_request(is_details) as by_colour:
        choose(page, "holder")
    with page.expect_request(lambda request: is_details(request) and "sharers=1" in request.url):
        drag(page, 3, 6)
    with page.expect_request(lambda request: is_details(request) and "sharers" not in request.url):
        page.keyboard.press("Escape")
    assert "sharers" not in by_colour.value.url


@pytest.mark.usefixtures("painted")
def test_a_range_names_nobody_while_holders_are_not_known(page: Page, backend: ScriptedBackend) -> None:
    drag(page, 1, 5)
    page.wait_for_function(f"{HELD} === 'There is no such thing.'")  # the backend's own sentence
    backend.answers["state/details"] = details_of(backend, {}, {}, known=False)
    page.wait_for_function(f"{HELD}.startsWith('Who holds blocks is not known since a gap')")
    assert page.evaluate("inside('block_map', '.sure').hidden")


COVERED = """numBlocks => {
  const canvas = inside("block_map", ".over");
  return Array.from({ length: numBlocks - 1 }, (_, at) => at + 1).filter(block => {
    const { x, y } = __kvxray.map.cellCentre(block);
    return canvas.getRootNode().elementFromPoint(x - scrollX, y - scrollY) !== canvas;
  });
}"""


@pytest.mark.parametrize("width", [420, 900])
@pytest.mark.usefixtures("painted")
def test_the_card_of_a_range_covers_no_block(page: Page, backend: ScriptedBackend, width: int) -> None:
    backend.answers["state/details"] = details_of(backend, {}, {4: 7, 5: 2**31, 6: 8, 7: 9}, together=[[7, 8, 10]])
    page.evaluate("width => document.body.style.width = `${width}px`", width)
    drag(page, 4, 7)
    page.wait_for_function(f"{SHARERS} !== ''")
    assert page.evaluate(COVERED, backend.num_blocks) == []
    drag(page, 6, 8)
    page.wait_for_function("inside('block_map', '.range b').textContent === 'Blocks 6 to 8'")


@pytest.mark.usefixtures("many")
def test_the_card_of_a_range_covers_none_of_many_blocks(page: Page, backend: ScriptedBackend) -> None:
    drag(page, 150, 349)
    page.wait_for_function("inside('block_map', '.range b').textContent === 'Blocks 150 to 349'")
    assert page.evaluate(COVERED, backend.num_blocks) == []


@pytest.mark.usefixtures("many")
def test_in_a_low_window_the_card_gives_way_to_the_pointer(page: Page, backend: ScriptedBackend) -> None:
    page.set_viewport_size({"width": 1000, "height": 600})
    foot = page.evaluate("inside('block_map', '.stage').getBoundingClientRect().bottom")
    page.set_viewport_size({"width": 1000, "height": int(foot) + 10})
    page.wait_for_function("inside('block_map', '.over').clientHeight < 330")
    drag(page, 150, 349)
    page.mouse.move(5, 5)
    card = page.evaluate("inside('block_map', '.range').getBoundingClientRect().toJSON()")
    assert card["bottom"] < foot, "all of it is in sight, over the last blocks"
    page.mouse.move(card["left"] + 4, card["bottom"] - 4)
    page.wait_for_function("foot => inside('block_map', '.range').getBoundingClientRect().top >= foot", arg=foot)
    assert page.evaluate(COVERED, backend.num_blocks) == []
