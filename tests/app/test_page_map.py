"""The block map in a real browser: where blocks are drawn, in which colour, and what pointing and keys do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kvxray_app.theme import DARK
from playwright.sync_api import Page

from tests.app.scripted_backend import ScriptedBackend

pytestmark = pytest.mark.browser

Mount = Callable[..., None]
LEAKED, LEAKED_ONLY = 1, 8
EMPTY, FREE, CACHED, ACTIVE, SHARED = 1, 2, 3, 4, 5

# The colour in the middle of a cell, low down: below the number, within the slots written of a full block.
PIXEL = """block => {
  const canvas = inside("block_map", ".blocks");
  const box = canvas.getBoundingClientRect();
  const { x, y } = __kvxray.map.cellCentre(block);
  const [r, g, b] = canvas.getContext("2d").getImageData(x - box.left - scrollX, y - box.top - scrollY, 1, 1).data;
  return "#" + [r, g, b].map(part => part.toString(16).padStart(2, "0")).join("");
}"""

# Near the upper right corner of a cell, and below its middle.
CORNER, PIXEL_LOW = (
    PIXEL.replace(
        "const { x, y } = __kvxray.map.cellCentre(block);",
        "const [at, first, second] = [block, 1, 2].map(id => __kvxray.map.cellCentre(id));"
        "const side = second.x - first.x;"
        f"const [x, y] = [at.x + {across} * side, at.y + {down} * side];",
    )
    for across, down in ((0.4, -0.4), (0, 0.3))
)

LAYOUTS = """async cases => {
  const { MapLayout } = await import("/assets/kvxray/map_layout.js");
  return cases.map(([number, hole, width, height, margin]) => {
    const layout = new MapLayout(number, hole, width, height, margin);
    const seen = new Set();
    const wrong = [];
    for (let block = 0; block < number; block++) {
      if (block === hole) continue;
      const [x, y, w, h] = layout.box(block);
      const inside = x >= margin && y >= margin && x + w <= width - margin + 1 && y + h <= height - margin + 1;
      const found = layout.blockAt(x + w / 2, y + h / 2);
      if (layout.grid.size >= 1 && (!inside || found !== block)) wrong.push(block);
      seen.add(layout.cellOf(block));
    }
    return { wrong, cells: seen.size, size: layout.grid.size };
  });
}"""


@pytest.fixture
def painted(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    """A map whose blocks 1 to 5 are in five different states."""
    for block, (state, ref, slots) in enumerate(
        [(EMPTY, 0, 0), (FREE, 0, 0), (CACHED, 0, 16), (ACTIVE, 1, 16), (SHARED, 3, 16)], start=1
    ):
        backend.set_block(block, state, ref, slots)
    mount("block_map")
    page.wait_for_function("__kvxray.map.cellCentre(1) !== null")


def test_every_block_has_a_cell_of_its_own_that_points_back_to_it(page: Page) -> None:
    cases = [
        [number, hole, width, height, 4]
        for number, hole in [(2, 0), (9, 0), (100, -1), (1024, 0), (1025, 512), (32_768, 0), (200_000, 0)]
        for width, height in [(850, 400), (320, 640), (1500, 560), (3001, 1117)]
    ]
    for case, layout in zip(cases, page.evaluate(LAYOUTS, cases), strict=True):
        assert layout["wrong"] == [], case
        assert layout["cells"] == case[0] - (case[1] >= 0), case


def test_a_million_blocks_fit_a_small_map(page: Page) -> None:
    (layout,) = page.evaluate(LAYOUTS, [[1_000_001, 0, 850, 400, 4]])
    assert layout["cells"] == 1_000_000
    assert 0 < layout["size"] < 1


@pytest.mark.usefixtures("painted")
def test_cells_have_the_colours_of_their_states(page: Page) -> None:
    colours = [page.evaluate(PIXEL, block) for block in range(1, 5)]
    assert colours == [DARK.empty, DARK.free, DARK.cached, DARK.active]


@pytest.mark.usefixtures("painted")
def test_delta_repaints_what_changed(page: Page, backend: ScriptedBackend) -> None:
    backend.set_block(1, ACTIVE, 1, 16)
    backend.send_delta([1])
    page.wait_for_function(f"({PIXEL})(1) === '{DARK.active}'")
    assert page.evaluate(PIXEL, 2) == DARK.free


@pytest.mark.usefixtures("painted")
def test_half_written_block_is_half_filled(page: Page, backend: ScriptedBackend) -> None:
    backend.set_block(4, ACTIVE, 1, 4)
    backend.send_delta([4])
    page.wait_for_function(f"({PIXEL})(4) !== '{DARK.active}'")  # the middle of the cell is above the fourth slot
    assert page.evaluate(PIXEL, 4) not in (DARK.active, DARK.empty, DARK.free)


@pytest.mark.usefixtures("painted")
def test_leaked_block_is_outlined_and_listed(page: Page, backend: ScriptedBackend) -> None:
    legend = "inside('block_map', '.legend').textContent"
    assert "leaked" not in page.evaluate(legend)
    backend.set_block(4, ACTIVE, 1, 16, flags=LEAKED | LEAKED_ONLY)
    backend.send_delta([4])
    page.wait_for_function(f"{legend}.endsWith('leaked1')")
    assert page.evaluate(PIXEL, 4) != DARK.active


@pytest.mark.usefixtures("painted")
def test_leaked_block_that_the_living_hold_as_well_keeps_its_colour_and_gets_a_corner(
    page: Page, backend: ScriptedBackend
) -> None:
    backend.set_block(4, ACTIVE, 1, 16, flags=LEAKED | LEAKED_ONLY)
    backend.set_block(5, SHARED, 3, 16, flags=LEAKED)
    backend.send_delta([4, 5])
    legend = "inside('block_map', '.legend').textContent"
    page.wait_for_function(f"{legend}.includes('leaked2, 1 held by nobody living')")
    page.wait_for_function(f"({CORNER})(5) === '{DARK.leaked}'")
    assert page.evaluate(PIXEL_LOW, 5) == DARK.shared
    assert page.evaluate(PIXEL_LOW, 4) not in (DARK.active, DARK.shared)


@pytest.mark.usefixtures("painted")
def test_card_tells_how_many_of_its_holders_have_ended(page: Page, backend: ScriptedBackend) -> None:
    for block, flags, words in (
        (5, LEAKED, "a holder has ended and still holds it"),
        (5, LEAKED | LEAKED_ONLY, "all its holders have ended"),
    ):
        backend.set_block(block, SHARED, 3, 16, flags)
        backend.send_delta([block])
        centre = page.evaluate("block => __kvxray.map.cellCentre(block)", block)
        page.mouse.move(centre["x"], centre["y"])
        page.wait_for_function("words => inside('block_map', '.card').textContent.includes(words)", arg=words)


@pytest.mark.usefixtures("painted")
def test_pointing_tells_what_a_block_is(page: Page) -> None:
    centre = page.evaluate("__kvxray.map.cellCentre(5)")
    page.mouse.move(centre["x"], centre["y"])
    page.wait_for_function("!inside('block_map', '.card').hidden")
    card = page.evaluate("inside('block_map', '.card').innerText")
    assert card.split("\n")[-2:] == ["held by 3", "16 of 16 slots written"]
    assert card.startswith("Block 5")
    page.mouse.move(2, 2)
    page.wait_for_function("inside('block_map', '.card').hidden")


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
    centre = page.evaluate("__kvxray.map.cellCentre(5)")
    page.mouse.move(centre["x"], centre["y"])
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


def test_permalink_opens_on_its_block(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    page.goto(f"{backend.url}/?block=6")
    page.wait_for_function("window.ready")
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


def test_inspector_says_in_the_backends_words_what_it_cannot_show(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    page.goto(f"{backend.url}/?block=777")
    page.wait_for_function("window.ready")
    mount("inspector")
    page.wait_for_function("inside('inspector', '.problem').textContent === 'There is no such thing.'")
    assert page.evaluate("inside('inspector', '.body').hidden"), "nothing but the reason"


def test_inspector_says_what_the_null_block_is(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    page.goto(f"{backend.url}/?block=0")
    page.wait_for_function("window.ready")
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
    page.goto(f"{backend.url}/?block=6")
    page.wait_for_function("window.ready")
    mount("inspector")
    words = "1 of 2 holders has ended and still holds it; the others live."
    page.wait_for_function("words => inside('inspector', '.meaning').textContent === words", arg=words)
    assert "none, first block of its prompt" in page.evaluate("inside('inspector', 'dl').textContent")


def block_answer(block: int, state: str = "active", holders: tuple[str, ...] = ("agent-1",)) -> dict[str, object]:
    age = {"value": 3.0, "unit": "seconds", "certainty": "exact", "since_seq": None, "taints": []}
    return {
        "block_id": block,
        "state": state,
        "ref_cnt": {**age, "value": len(holders)},
        "slots": {**age, "value": 16},
        "block_hash": "ab" * 32,
        "parent_block_hash": None,
        "group": 0,
        "medium": "GPU",
        "holders": [
            {"holder": at, "request_id": name, "kind": "request", "status": "running", "leaked": False}
            for at, name in enumerate(holders)
        ],
        "allocated_at": "2026-01-01T00:00:00.000Z",
        "last_event_at": "2026-01-01T00:00:01.000Z",
        "age_s": age,
        "idle_s": age,
        "history": [],
        "taints": [],
    }
