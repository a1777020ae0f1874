"""The block map in a real browser: what its colours tell, in each mode, and its legend."""

from __future__ import annotations

import pytest
from kvxray_app.theme import DARK
from playwright.sync_api import Page

from tests.app.map_probe import ACTIVE, CORNER, LEAKED, LEAKED_ONLY, PIXEL, PIXEL_LOW, SHARED, choose, details_of
from tests.app.scripted_backend import ScriptedBackend

pytestmark = pytest.mark.browser


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


@pytest.mark.usefixtures("many")
def test_pressed_class_of_the_legend_stands_out(page: Page) -> None:
    shared, cached = 450, 250
    assert page.evaluate(PIXEL_LOW, shared) == DARK.shared
    page.evaluate("inside('block_map', '.chip[data-state=cached]').click()")
    page.wait_for_function(f"({PIXEL_LOW})({shared}) !== '{DARK.shared}'")
    assert page.evaluate(PIXEL_LOW, cached) == DARK.cached
    page.evaluate("inside('block_map', '.chip[data-state=cached]').click()")
    page.wait_for_function(f"({PIXEL_LOW})({shared}) === '{DARK.shared}'")


@pytest.mark.usefixtures("many")
def test_colours_tell_references_when_asked_to(page: Page, backend: ScriptedBackend) -> None:
    choose(page, "references")
    backend.set_block(10, SHARED, 12, 16)
    backend.send_delta([10])
    page.wait_for_function(f"({PIXEL_LOW})(10) === '{DARK.scale_5}'")
    page.wait_for_function("inside('block_map', '.legend').innerText.includes('9–16')")
    page.wait_for_function("location.search === '?mode=references'")


@pytest.mark.usefixtures("painted")
def test_colours_tell_ages_when_asked_to(page: Page, backend: ScriptedBackend) -> None:
    backend.answers["state/details"] = details_of(backend, {3: 99, 4: 100, 5: 360_000}, {})
    choose(page, "age")
    page.wait_for_function(f"({PIXEL_LOW})(3) === '{DARK.scale_6}'")
    shown = [page.evaluate(PIXEL_LOW, block) for block in (1, 4, 5)]
    assert shown == [DARK.empty, DARK.scale_5, DARK.scale_1]


@pytest.mark.usefixtures("painted")
def test_colours_tell_holders_when_asked_to(page: Page, backend: ScriptedBackend) -> None:
    several = 2**32 - 2
    backend.answers["state/details"] = details_of(backend, {}, {4: 7, 5: several, 6: 8})
    backend.set_block(6, ACTIVE, 1, 16)
    backend.set_block(7, ACTIVE, 1, 16)  # held since the answer
    backend.send_delta([6, 7])
    choose(page, "holder")
    page.wait_for_function(f"({PIXEL_LOW})(5) === '{DARK.holder_several}'")
    shown = [page.evaluate(PIXEL_LOW, block) for block in (3, 4, 6)]
    assert shown == [DARK.empty, DARK.holder_1, DARK.holder_2]
    assert page.evaluate(PIXEL_LOW, 7) not in (DARK.empty, DARK.holder_1, DARK.holder_2, DARK.holder_others)
    legend = page.evaluate("inside('block_map', '.legend').innerText").split()
    assert legend == ["agent-7", "1", "agent-8", "1", "others", "0", "several", "1", "nobody", "4", "unknown", "1"]
    page.locator("#block_map .chip", has_text="unknown").hover()
    page.wait_for_function("inside('block_map', '.kx-tip').textContent.includes('or the next answer tells')")


@pytest.mark.usefixtures("painted")
def test_a_mode_without_data_says_why(page: Page, backend: ScriptedBackend) -> None:
    words = "inside('block_map', '#kx-map-help').textContent"
    choose(page, "age")
    page.wait_for_function(f"{words} === 'There is no such thing.'")  # the backend's own sentence
    assert page.evaluate(PIXEL_LOW, 4) not in [getattr(DARK, f"scale_{step}") for step in range(1, 7)]
    backend.answers["state/details"] = details_of(backend, {}, {}, known=False)
    choose(page, "holder")
    page.wait_for_function(f"{words}.startsWith('Who holds blocks is not known')")


@pytest.mark.usefixtures("painted")
def test_colours_tell_tenants_where_requests_name_them(page: Page, backend: ScriptedBackend) -> None:
    for block in (6, 7, 8):
        backend.set_block(block, ACTIVE, 1, 16)
    backend.send_delta([6, 7, 8])
    backend.answers["state/details"] = details_of(backend, {}, {}, tenants={4: 5, 5: 3, 6: 6, 7: 2, 8: 0})
    choose(page, "tenant")
    page.wait_for_function(f"({PIXEL_LOW})(5) === '{DARK.holder_several}'")
    shown = [page.evaluate(PIXEL_LOW, block) for block in (3, 4, 6, 7)]
    assert shown == [DARK.empty, DARK.holder_1, DARK.holder_2, DARK.free]
    legend = page.evaluate("inside('block_map', '.legend').innerText").split("\n")
    assert [" ".join(chip.split()) for chip in legend if chip.strip()] == [
        *("aaaaaaaa…aaaa", "1", "bbbbbbbb…bbbb", "1", "others", "0", "several", "1", "not told", "1", "nobody", "3"),
        *("unknown", "1"),
    ]


@pytest.mark.usefixtures("painted")
def test_where_no_request_names_a_tenant_the_map_says_so(page: Page, backend: ScriptedBackend) -> None:
    backend.answers["state/details"] = details_of(backend, {}, {4: 7})
    choose(page, "tenant")
    words = "inside('block_map', '#kx-map-help').textContent"
    page.wait_for_function(f"{words} === 'No request says for which tenant it is.'")
    assert [page.evaluate(PIXEL_LOW, block) for block in (3, 4)] == [DARK.empty, DARK.free]
    legend = "inside('block_map', '.legend').innerText.split(/\\s+/).join(' ')"
    page.wait_for_function(f"{legend} === 'not told 1 nobody 6 unknown 1'")


@pytest.mark.usefixtures("painted")
def test_colours_tell_the_memory_that_blocks_lie_in(page: Page, backend: ScriptedBackend) -> None:
    words = "inside('block_map', '#kx-map-help').textContent"
    choose(page, "medium")
    page.wait_for_function(f"{words} === 'The source does not tell in which memory its blocks lie.'")
    pools = [("GPU", 0, 6), ("CPU", 6, 2)]
    backend.descriptor = {
        "num_blocks": 9,
        "null_block": 0,
        "block_size": 16,
        "pools": [{"medium": name, "name": name, "first_block_id": at, "num_blocks": n} for name, at, n in pools],
    }
    backend.send_summary()
    page.wait_for_function(f"({PIXEL_LOW})(1) === '{DARK.holder_1}'")
    shown = [page.evaluate(PIXEL_LOW, block) for block in (5, 6, 7)]
    assert shown == [DARK.holder_1, DARK.holder_2, DARK.holder_2]
    legend = "inside('block_map', '.legend').innerText.split(/\\s+/).join(' ')"
    page.wait_for_function(f"{legend} === 'GPU 5 CPU 2 unknown 1'")
    assert page.evaluate("inside('block_map', '.legend [aria-pressed=true]')") is None
