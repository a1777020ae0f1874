"""The page of an engine that tells of hashes, in a browser: its map of cached prefixes, and what is known of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from kvxray_app.theme import DARK
from playwright.sync_api import Page

from tests.app.residency_answers import (
    Cell,
    event,
    forest,
    found,
    hash_view,
    hex_of,
    link,
    residency_frame,
    screen_data,
    tell,
)
from tests.app.scripted_backend import ScriptedBackend, figure

pytestmark = pytest.mark.browser
Open = Callable[..., None]

PIXEL = """ordinal => {
  const [x, y] = __kvxray.residency.centreOf(ordinal);
  const canvas = inside('residency', '.cells');
  const box = canvas.getBoundingClientRect();
  const scale = canvas.width / box.width;
  const at = [(x - box.left) * scale, (y - box.top) * scale, 1, 1];
  const [red, green, blue] = canvas.getContext('2d').getImageData(...at).data;
  return '#' + [red, green, blue].map(part => part.toString(16).padStart(2, '0')).join('');
}"""

GLOW = """ordinal => {
  const centre = __kvxray.residency.centreOf(ordinal);
  if (!centre) return null;
  const canvas = inside('residency', '.over');
  const box = canvas.getBoundingClientRect();
  const scale = canvas.width / box.width;
  const at = [(centre[0] - box.left) * scale, (centre[1] - box.top) * scale, 1, 1];
  return canvas.getContext('2d').getImageData(...at).data[3];
}"""

WRITTEN = """ordinal => {
  const [x, y] = __kvxray.residency.centreOf(ordinal);
  const canvas = inside('residency', '.writing');
  const box = canvas.getBoundingClientRect();
  const scale = canvas.width / box.width;
  const around = [(x - box.left - 60) * scale, (y - box.top - 6) * scale, 120 * scale, 12 * scale];
  return canvas.getContext('2d').getImageData(...around).data.some((part, at) => at % 4 === 3 && part > 0);
}"""


@pytest.fixture
def show(page: Page, backend: ScriptedBackend) -> Open:
    """Mount the page of an engine with these cells, and wait for its map."""

    def mount(cells: list[Cell], kind: str = "hashes", **changed: Any) -> None:
        tell(backend, cells, **changed)
        page.evaluate("data => mountComponent('residency', data)", screen_data(kind))
        page.wait_for_function("inside('residency', '.coverage li') !== null")
        if cells:
            page.wait_for_function(f"__kvxray.residency.centreOf({cells[0].ordinal}) !== null")

    return mount


def text(page: Page, selector: str) -> str:
    found: str = page.evaluate("s => inside('residency', s).textContent", selector)
    return found


def wait_for(page: Page, selector: str, words: str) -> None:
    page.wait_for_function("([s, t]) => inside('residency', s)?.textContent.includes(t)", arg=[selector, words])


def click(page: Page, ordinal: int) -> None:
    page.mouse.click(*page.evaluate("at => __kvxray.residency.centreOf(at)", ordinal))


def test_what_prompts_share_is_as_high_as_all_that_follow_it(page: Page, show: Open) -> None:
    show(forest())
    middles = {at: page.evaluate("at => __kvxray.residency.centreOf(at)", at) for at in (1, 2, 3, 4, 5, 6)}
    assert middles[1][1] == middles[2][1] == pytest.approx((middles[3][1] + middles[4][1]) / 2, abs=1)
    assert middles[1][0] < middles[2][0] < middles[3][0] == middles[4][0]
    assert middles[5][0] == middles[1][0]
    # What was before it is gone, and leaves its place empty.
    assert middles[6][0] == middles[3][0]


def test_colours_tell_ages_and_what_else_is_asked_for(page: Page, show: Open) -> None:
    show(forest())
    page.wait_for_function(f"({PIXEL})(1) === '{DARK.scale_5}'")
    assert page.evaluate(PIXEL, 4) == DARK.unknown
    page.evaluate("inside('residency', '[data-option=medium]').click()")
    page.wait_for_function(f"({PIXEL})(5) === '{DARK.holder_2}'")
    assert page.evaluate(PIXEL, 1) == DARK.holder_1
    assert text(page, ".chips") == "cpu1GPU5"
    page.evaluate("inside('residency', '[data-option=certainty]').click()")
    page.wait_for_function(f"({PIXEL})(4) === '{DARK.shared}'")
    assert page.evaluate("location.search") == "?mode=certainty"


def test_a_class_of_the_legend_stands_out_and_the_unreachable_are_counted(page: Page, show: Open) -> None:
    show(forest())
    assert text(page, ".legend > .chip") == "unreachable 1"
    page.evaluate("inside('residency', '[data-option=certainty]').click()")
    page.wait_for_function(f"({PIXEL})(1) === '{DARK.cached}'")
    page.evaluate("[...inside('residency', '.chips').children].find(chip => chip.innerText.includes('maybe')).click()")
    page.wait_for_function(f"({PIXEL})(1) !== '{DARK.cached}'")
    assert page.evaluate(PIXEL, 4) == DARK.shared


def test_a_cell_that_is_pressed_is_told_of_in_full(page: Page, backend: ScriptedBackend, show: Open) -> None:
    backend.answers["residency/hash"] = hash_view(
        2, parent=link(1), is_root=False, chain_length=2, children=[link(3), link(4, is_here=False)], num_children=2,
        history=[event(9, "ResidencyRemoved", cause="remove"), event(2, parent=hex_of(1))],
    )  # fmt: skip
    show(forest())
    click(page, 2)
    wait_for(page, ".inspector .whole", hex_of(2))
    assert page.evaluate("location.search") == f"?hash={hex_of(2)}"
    facts = page.evaluate(
        "Object.fromEntries([...inside('residency', '.inspector dl').querySelectorAll('dt')]"
        ".map(name => [name.textContent, name.nextSibling.textContent]))"
    )
    assert facts["Continues"] == "00000000…0001"
    assert facts["Place in its chain"] == "block 2"
    assert facts["Reuses told"] == "none"
    assert "00000000…0004, gone" in text(page, ".children")
    rows = page.evaluate("[...inside('residency', '.history').children].map(row => row.lastChild.textContent)")
    assert rows == ["Removed GPU  ·  group 0", "Stored after 00000000…0001  ·  GPU  ·  group 0"]
    backend.answers["residency/hash"] = hash_view(1)
    page.evaluate("inside('residency', '.inspector dd .link').click()")
    wait_for(page, ".inspector .whole", hex_of(1))
    page.keyboard.press("Escape")
    page.wait_for_function("location.search === ''")
    wait_for(page, ".inspector h2", "Inspector")


def test_the_hash_of_the_address_is_selected_from_the_start(page: Page, backend: ScriptedBackend, show: Open) -> None:
    page.goto(f"{backend.url}/?hash={hex_of(3)}")
    page.wait_for_function("window.ready")
    backend.answers["residency/hash"] = hash_view(3)
    show(forest())
    wait_for(page, ".inspector .whole", hex_of(3))


def test_a_hash_that_is_not_known_says_so(page: Page, show: Open) -> None:
    show(forest())
    click(page, 2)
    wait_for(page, ".inspector .note", "There is no such thing.")


def test_the_keyboard_walks_along_chains_and_branches(page: Page, backend: ScriptedBackend, show: Open) -> None:
    backend.answers["residency/hash"] = hash_view(4)
    show(forest())
    page.evaluate("inside('residency', '.over').focus()")
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    wait_for(page, ".card", "2 blocks before it")
    assert "maybe still here" in text(page, ".card")
    page.keyboard.press("Enter")
    wait_for(page, ".inspector .whole", hex_of(4))
    page.keyboard.press("o")
    page.wait_for_function("location.search.includes('layout=rows')")


def test_the_map_follows_what_is_told_and_glows_where_it_changed(
    page: Page, backend: ScriptedBackend, show: Open
) -> None:
    show(forest())
    page.wait_for_function(f"({GLOW})(1) === 0")
    tell(backend, [*forest(), Cell(7, 2, depth=3)], seq="1.101")
    page.wait_for_function(f"({GLOW})(7) > 0")
    assert page.evaluate(GLOW, 1) == 0
    wait_for(page, ".changes", "1 came with the last change")
    tell(backend, forest()[:3], seq="1.102")
    wait_for(page, ".changes", "4 went")
    assert "3 blocks in 1 tree" in text(page, ".map .panel-head")


def test_no_cell_moves_while_somebody_points_at_the_map(page: Page, backend: ScriptedBackend, show: Open) -> None:
    show(forest())
    page.mouse.move(*page.evaluate("__kvxray.residency.centreOf(5)"))
    before = page.evaluate("__kvxray.residency.centreOf(5)")
    tell(
        backend,
        [Cell(7), *(replace(cell, parent=cell.parent + 1 if cell.parent < 9 else cell.parent) for cell in forest())],
        seq="1.101",
    )
    wait_for(page, ".changes", "Rests while you point at it")
    assert page.evaluate("__kvxray.residency.centreOf(5)") == before
    page.mouse.move(2, 2)
    wait_for(page, ".changes", "1 came with the last change")
    assert page.evaluate("__kvxray.residency.centreOf(5)") != before


def test_a_map_with_room_for_words_says_what_is_shared_and_how_deep_one_is(page: Page, show: Open) -> None:
    show(forest())
    marks = page.evaluate("[...inside('residency', '.axis').children].map(node => node.textContent)")
    assert marks == ["prompts begin", "16 tokens", "32 tokens", "48 tokens"]
    assert page.evaluate(WRITTEN, 1), "nothing tells that two prompts share it"
    assert not page.evaluate(WRITTEN, 5), "it is shared by nobody"
    page.evaluate("inside('residency', '.over').focus()")
    page.keyboard.press("o")
    page.wait_for_function("inside('residency', '.axis').hidden")


def test_an_unchanged_cache_is_not_asked_for_again(page: Page, backend: ScriptedBackend, show: Open) -> None:
    show(forest())
    page.wait_for_timeout(2500)
    assert backend.asked.count("residency") >= 2
    assert backend.asked.count("residency/map") == 1
    assert backend.asked.count("events") == 1


def test_chains_that_go_in_circles_and_numbers_out_of_range_are_drawn_all_the_same(page: Page, show: Open) -> None:
    show([Cell(1, 1), Cell(2, 0), Cell(3, 77), Cell(4, 3), Cell(5, place=65535, depth=65535, reuses=65535)])
    assert page.evaluate("__kvxray.residency.count()") == 5
    assert all(page.evaluate("at => __kvxray.residency.centreOf(at)", at) for at in (1, 2, 3, 4, 5))


def test_a_map_that_is_cut_off_says_so(page: Page, backend: ScriptedBackend, show: Open) -> None:
    show(forest())
    backend.answers["residency/map"] = residency_frame(forest(), total=1_000_000)
    backend.answers["residency"]["seq"] = "1.101"
    wait_for(page, ".map .panel-head", "6 of 1,000,000 blocks")
    backend.answers["residency/map"] = b"KVXC\x01"
    backend.answers["residency"]["seq"] = "1.102"
    page.wait_for_timeout(1500)
    assert page.evaluate("__kvxray.residency.count()") == 6


def test_a_map_that_cannot_be_read_is_one_sentence(page: Page, backend: ScriptedBackend, show: Open) -> None:
    tell(backend, [])
    backend.answers["residency/map"] = b"KVXC\x01"
    page.evaluate("data => mountComponent('residency', data)", screen_data())
    wait_for(page, ".map > .note", "The map is shorter than its header.")


def test_a_hundred_thousand_blocks_are_drawn(page: Page, show: Open) -> None:
    chains = [
        Cell(chain * 20 + at, 2**32 - 1 if at == 0 else chain * 20 + at - 1, depth=at)
        for chain in range(5000)
        for at in range(20)
    ]
    show(chains)
    assert "100,000 blocks in 5,000 trees" in text(page, ".map .panel-head")
    wait_for(page, "#kx-residency-help", "More blocks than pixels")
    page.evaluate("inside('residency', '.over').focus()")
    for _ in range(12):
        page.keyboard.press("+")
    page.wait_for_function("inside('residency', '#kx-residency-help').textContent.startsWith('Arrows')")


def test_moves_between_two_frames_all_count(page: Page, show: Open) -> None:
    show([Cell(chain, 2**32 - 1) for chain in range(20_000)])
    enlarged = page.evaluate(
        """async () => {
          const top = inside('residency', '.over');
          const afterKeys = (...keys) => new Promise((done) => {
            for (const key of keys) top.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
            requestAnimationFrame(() => requestAnimationFrame(() => done(top.hasAttribute('data-enlarged'))));
          });
          return [await afterKeys('+', '-'), await afterKeys('+', '+', '-'), await afterKeys('-')];
        }"""
    )
    assert enlarged == [False, True, False]


def test_events_are_told_in_words_and_lead_to_their_moments(page: Page, backend: ScriptedBackend, show: Open) -> None:
    told = [event(1), event(2), event(3, cause="reuse_report", parent=hex_of(2)), event(4, "CacheCleared", hash=None)]
    show(forest())
    backend.answers["events"] = {"events": told, "next": None}
    backend.answers["residency"]["seq"] = "1.101"
    wait_for(page, ".tail ol", "Cleared")
    rows = page.evaluate(
        "[...inside('residency', '.tail ol').children].map(row => row.querySelector('.what').innerText)"
    )
    assert rows[0].startswith("Cleared")
    assert "after 00000000…0002" in rows[1].replace("\n", " ")
    assert "a reuse" in rows[1]
    assert "2 blocks from" in rows[2]
    page.evaluate("inside('residency', '.tail .time').click()")
    page.wait_for_function("location.search === '?at=1.4'")
    wait_for(page, ".moment", "Everything is as it was at")
    assert text(page, ".phase") == "Past"
    backend.answers["step"] = {"at": "1.3", "time": "2026-01-01T00:00:01.000Z", "step": 0}
    page.evaluate("[...inside('residency', '.moment').querySelectorAll('button')][0].click()")
    page.wait_for_function("location.search === '?at=1.3'")
    page.evaluate("inside('residency', '.moment .live').click()")
    page.wait_for_function("location.search === ''")
    page.wait_for_function("inside('residency', '.moment').hidden")


def test_findings_lead_to_their_moments_from_the_past_too(page: Page, backend: ScriptedBackend, show: Open) -> None:
    show(forest(), findings=[found("f")], num_findings=1)
    wait_for(page, ".findings .sentence", "12 batches were lost.")
    page.evaluate("inside('residency', '.findings li button').click()")
    page.wait_for_function("location.search === '?at=1.52'")
    backend.answers["findings"] = {"findings": [found("f", seq1=60)], "total": 1}
    page.evaluate("inside('residency', '.moment select').focus()")
    page.wait_for_function("inside('residency', '.moment select').options.length === 2")
    page.evaluate(
        "(select => { select.value = '1.60'; select.dispatchEvent(new Event('change')); })"
        "(inside('residency', '.moment select'))"
    )
    page.wait_for_function("location.search === '?at=1.60'")


def test_nothing_heard_and_nothing_cached_are_told_apart(page: Page, backend: ScriptedBackend, show: Open) -> None:
    untold = {"cached_blocks": figure(None, "blocks", "not_observable")}
    show([], state="waiting", epoch=None, seq=None, descriptor=None, places=[], figures=untold)
    wait_for(page, ".map > .note", "Nothing was heard of this engine yet")
    tell(backend, [], seq="1.0", places=[])
    wait_for(page, ".map > .note", "Nothing is cached, as far as is known")
