"""Whose the cache is, in a browser: numbers, what is none's, blocks on the map, hostile names, all states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kvxray_app.components.overview_panels import overview_words
from playwright.sync_api import Page

from tests.app.residency_answers import forest, screen_data, tell
from tests.app.scripted_backend import ScriptedBackend
from tests.app.tenants_answers import (
    ADAPTERS,
    BLUE,
    RED,
    evictions,
    nobody_told,
    of_hashes,
    party,
    shares,
    tenants_view,
)
from tests.app.test_page_overview import answer, engine
from tests.app.test_page_residency_axe import assert_accessible, turn_to

pytestmark = pytest.mark.browser
Mount = Callable[..., None]

CROSSING = {
    "id": "x", "kind": "cross_tenant_prefix", "severity": "critical", "epoch": 1, "seq0": 5, "seq1": 40,
    "sentence": "12 blocks are held at once by requests whose salts differ.", "time": "2026-01-01T00:00:00.000Z",
    "subjects": {"blocks": list(range(3, 15)), "requests": []}, "numbers": {"blocks": 12},
}  # fmt: skip
HOSTILE = ("<script>alert(1)</script>", "‮name אבג", "🚀 team 🚀", "x" * 500)
CELLS = """name => [...inside(name, 'tbody').rows].map(row =>
    [...row.cells].filter(cell => !cell.hidden).map(cell => cell.innerText.replace(/\\s+/g, ' ').trim()))"""


def text(page: Page, selector: str, name: str = "tenants") -> str:
    found: str = page.evaluate("([n, s]) => inside(n, s).innerText", [name, selector])
    return found


def wait_for(page: Page, selector: str, words: str, name: str = "tenants") -> None:
    page.wait_for_function("([n, s, t]) => inside(n, s)?.innerText.includes(t)", arg=[name, selector, words])


def show(page: Page, backend: ScriptedBackend, mount: Mount, view: dict[str, Any] | None = None) -> None:
    backend.answers["tenants"] = tenants_view() if view is None else view
    mount("tenants", wait=False)
    page.wait_for_function("inside('tenants', 'tbody')?.rows.length > 0")


def press(page: Page, row: str, name: str = "tenants") -> None:
    page.evaluate(
        "([n, t]) => [...inside(n, 'tbody').rows].find(row => row.innerText.includes(t)).querySelector('.who').click()",
        [name, row],
    )


def addresses(page: Page) -> list[str]:
    """What the page asks for from now on."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    return asked


def test_each_tenant_has_its_numbers_and_what_is_none_is_told_apart(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    show(page, backend, mount)
    assert page.evaluate(CELLS, "tenants") == [
        ["b1b1b1b1…b1b1 salt", "25 25.0%", "120 50.0%", "18", "4"],
        ["edededed…eded salt", "40 40.0%", "60 25.0%", "4", "18"],
        ["sql-adapter adapter", "10 10.0%", "0 0.0%", "0", "0"],
        ["Shared by several", "15 15.0%", "15 6.3%", "—", "—"],
        ["Not told", "10 10.0%", "5 2.1%", "0", "0"],
        ["Not known", "0 0.0%", "40 16.7%", "0", "3"],
    ]
    marks = "[...inside('tenants', 'thead').querySelectorAll('.mark')].map(mark => mark.getAttribute('aria-label'))"
    assert page.evaluate(marks) == ["exact", "derived", "derived", "derived"]
    assert text(page, ".tenants-whole .number") == "100"
    pairs = "[...inside('tenants', '.tenants-pairs').children].map(item => item.innerText.replace(/\\s+/g, ' '))"
    assert page.evaluate(pairs) == [
        "b1b1b1b1…b1b1 took from edededed…eded 18 blocks", "edededed…eded took from b1b1b1b1…b1b1 4 blocks",
    ]  # fmt: skip
    last = "25 evictions to make room in 60 s. Whose the block was is not known of 3 of them."
    assert text(page, ".tenants-evictions p") == last


def test_what_is_not_stored_is_not_counted_and_said(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    lost = evictions((RED, BLUE, 2), until="1.60", until_time="2026-01-01T00:01:30.000Z")
    show(page, backend, mount, tenants_view(evictions=lost))
    assert text(page, ".tenants-evictions p").endswith("of what came after 00:01:30: it is not counted.")


def test_the_bar_has_the_parts_of_the_table(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    show(page, backend, mount)
    grow = "[...inside('tenants', '.tenants-bar').children].map(part => [part.dataset.part, part.style.flexGrow])"
    assert page.evaluate(grow) == [["1", "25"], ["2", "40"], ["3", "10"], ["several", "15"], ["not_told", "10"]]


def test_of_hundreds_a_few_are_shown_and_what_is_beyond_is_not_known_of_each(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    salts = [("salt", f"{at:032x}", 300 - at) for at in range(200)]
    many = tenants_view(held=shares(*salts), cached=shares(*salts[::-1], certainty="derived"), evictions=evictions())
    many["cached"]["tenants"].sort(key=lambda one: -one["amount"])
    show(page, backend, mount, many)
    rows = page.evaluate(CELLS, "tenants")
    assert len(rows) == 9
    assert rows[8][0] == "136 further tenants"
    assert rows[0][2] == "—", "it is not among those told of what is cached, and has something"
    assert text(page, ".tenants-table > .quiet-button") == "Show 120 more"
    page.evaluate("inside('tenants', '.tenants-table > .quiet-button').click()")
    assert page.evaluate("inside('tenants', 'tbody').rows.length") == 129
    parts = page.evaluate("[...inside('tenants', '.tenants-bar').children].map(part => part.dataset.part)")
    assert parts == [*"1234567", "others"]


def test_names_given_by_others_are_text_and_take_no_more_room_than_theirs(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    held = shares(*(("lora", name, 20 - at) for at, name in enumerate(HOSTILE)))
    pair = {"lost": party(HOSTILE[0], "lora"), "took": party(HOSTILE[3], "lora"), "blocks": 2}
    show(page, backend, mount, tenants_view(held=held, cached=held, evictions=evictions(num=2, pairs=[pair])))
    names = page.evaluate("[...inside('tenants', 'tbody').rows].map(row => row.querySelector('.name').textContent)")
    assert names == list(HOSTILE)
    assert page.evaluate("inside('tenants', 'script') === null")
    assert page.evaluate("inside('tenants', '.panel').scrollWidth <= inside('tenants', '.panel').clientWidth")
    last = "[...inside('tenants', 'tbody').rows].at(-1)"
    assert page.evaluate(f"{last}.cells[0].clientWidth < {last}.parentNode.clientWidth / 2")
    page.evaluate(f"{last}.querySelector('.who').focus()")
    assert "(500 characters)" in text(page, ".kx-tip")


def test_a_tenant_marks_its_blocks_on_the_map_until_it_is_let_go(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    backend.answers["tenants/blocks"] = {"unit": "blocks", "num": 3, "runs": [[1, 2], [5, 1]], "left_out": 0}
    mount("block_map")
    show(page, backend, mount)
    asked = addresses(page)
    press(page, "b1b1")
    wait_for(page, ".lit", "salt b1b1b1b1…b1b1 · 3 blocks", "block_map")
    assert any(f"tenants/blocks?source=demo&whose=salt&tenant={BLUE}" in one for one in asked)
    assert page.evaluate("new URLSearchParams(location.search).get('whose')") == f"salt:{BLUE}"
    assert page.evaluate("inside('tenants', '.who').getAttribute('aria-pressed')") == "true"
    press(page, "Not known")
    wait_for(page, ".lit", "Not known · 3 blocks", "block_map")
    page.keyboard.press("Escape")
    page.wait_for_function("inside('block_map', '.lit').hidden")
    page.wait_for_function("inside('tenants', '[data-kind=unknown] .who').getAttribute('aria-pressed') === 'false'")
    assert "whose" not in page.evaluate("location.search")


def test_the_address_marks_a_tenant_and_a_page_left_asks_for_nothing(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    backend.answers["tenants/blocks"] = {"unit": "blocks", "num": 1, "runs": [[4, 1]], "left_out": 0}
    page.goto(f"{backend.url}/?whose=salt:{RED}")
    page.wait_for_function("window.ready")
    mount("block_map")
    show(page, backend, mount)
    wait_for(page, ".lit", "salt edededed…eded · 1 block", "block_map")
    page.evaluate("unmount('tenants')")
    page.wait_for_function("inside('block_map', '.lit').hidden")
    page.wait_for_timeout(500)  # what was on its way has come
    asked = len(backend.asked)
    page.wait_for_timeout(2500)  # longer than the pause between two questions about blocks
    assert not [one for one in backend.asked[asked:] if one.startswith("tenants")]


def test_an_unseen_page_asks_for_no_blocks_and_those_beyond_the_most_are_counted(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    backend.answers["tenants/blocks"] = {"unit": "blocks", "num": 9, "runs": [[1, 2]], "left_out": 7}
    mount("block_map")
    show(page, backend, mount)
    press(page, "b1b1")
    wait_for(page, ".lit", "(and 7 that are not marked) · 2 blocks", "block_map")
    turn = """hidden => {
      Object.defineProperty(document, 'hidden', { value: hidden, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));
    }"""
    page.evaluate(turn, True)
    page.wait_for_timeout(500)  # what was on its way has come
    asked = backend.asked.count("tenants/blocks")
    page.wait_for_timeout(4500)  # longer than two pauses
    assert backend.asked.count("tenants/blocks") == asked
    with page.expect_request(lambda request: "tenants/blocks" in request.url):
        page.evaluate(turn, False)


def test_what_makes_a_tenant_is_chosen_and_asked_for(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    show(page, backend, mount)
    options = "[...inside('tenants', '.modes').children].map(option => option.textContent)"
    assert page.evaluate(options) == ["Any", "Salt", "Adapter"]
    only = shares(("lora", ADAPTERS[0], 10), not_told=90)
    backend.answers["tenants"] = tenants_view(by="lora", held=only, cached=only)
    with page.expect_request(lambda request: "tenants?source=demo&by=lora" in request.url):
        page.evaluate("inside('tenants', '[data-option=lora]').click()")
    page.wait_for_function("inside('tenants', 'tbody').rows[0].innerText.includes('sql-adapter')")
    assert page.evaluate("location.search") == "?by=lora"
    nobody = shares(not_told=9)
    backend.answers["tenants"] = tenants_view(by="salt", held=nobody, cached=nobody, evictions=evictions())
    page.evaluate("inside('tenants', '[data-option=salt]').click()")
    wait_for(page, ".note b", "No name tells a salt")
    assert page.evaluate(options) == ["Any", "Salt", "Adapter"], "there is a way back"


def test_where_nothing_is_told_it_says_why_and_what_would_make_it_known(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    backend.answers["tenants"] = nobody_told()
    mount("tenants", wait=False)
    wait_for(page, ".note b", "Whose the cache is, is not told")
    assert "30 blocks held, 70 blocks cached" in text(page, ".note")
    assert "cache_salt" in text(page, ".note")
    assert page.evaluate("inside('tenants', '.tenants-body').hidden")
    backend.answers["tenants"] = tenants_view(told=[], held=shares(), cached=shares(), evictions=evictions())
    page.evaluate("unmount('tenants')")
    mount("tenants", wait=False)
    wait_for(page, ".note b", "The cache is empty")


def test_a_backend_that_does_not_answer_is_said_and_what_was_shown_is_old(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    mount("tenants", wait=False)
    wait_for(page, ".note", "There is no such thing. Trying again.")
    backend.answers["tenants"] = tenants_view()
    page.wait_for_function("inside('tenants', 'tbody').rows.length > 0", timeout=20_000)
    del backend.answers["tenants"]
    page.wait_for_function("!inside('tenants', '.tenants-trouble').hidden", timeout=20_000)
    assert "There is no such thing. What is shown is of" in text(page, ".tenants-trouble")
    assert page.evaluate("inside('tenants', '.panel').hasAttribute('data-old')")
    assert page.evaluate("inside('tenants', 'tbody').rows.length") == 6


def test_blocks_that_two_tenants_read_stand_beside_and_lead_to_the_block(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    backend.findings = [CROSSING]
    show(page, backend, mount)
    wait_for(page, ".tenants-crossing", "12 blocks are held at once by requests whose salts differ.")
    assert "and 4 more blocks" in text(page, ".tenants-crossing")
    assert page.evaluate("inside('tenants', '.tenants-blocks a').href") == f"{backend.url}/?source=demo&block=3"


def test_the_overview_shows_the_same_and_leads_to_the_map(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    backend.answers |= {
        "tenants": tenants_view(),
        "overview": answer(engine("demo", findings=[CROSSING], num_findings=1)),
    }
    mount("overview", wait=False, overview=overview_words(), source=None)
    page.wait_for_function("inside('overview', '.tenants tbody')?.rows.length === 6")
    row = page.evaluate("inside('overview', '.tenants tbody .who').href")
    assert row == f"{backend.url}/?source=demo&whose=salt%3A{BLUE}"
    assert (
        page.evaluate("inside('overview', '.tenants-blocks a').href") == f"{backend.url}/?source=demo&at=1.40&block=3"
    )


def test_of_metrics_alone_the_overview_says_that_they_name_no_tenants(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    backend.answers["overview"] = answer(engine("e", kind="metrics", state="no_stream"))
    mount("overview", wait=False, overview=overview_words(), source=None)
    wait_for(page, ".tenants .note", "known by its metrics alone: they name no tenants.", "overview")
    assert "tenants" not in backend.asked


def test_of_an_engine_that_tells_of_hashes_a_tenant_is_marked_on_its_map(page: Page, backend: ScriptedBackend) -> None:
    tell(backend, forest())
    backend.answers |= {
        "tenants": of_hashes(),
        "tenants/blocks": {"unit": "hashes", "num": 3, "runs": [[1, 2], [5, 1]], "left_out": 0},
    }
    page.evaluate("data => mountComponent('residency', data)", screen_data("hashes"))
    page.wait_for_function("inside('residency', '.tenants tbody')?.rows.length === 3")
    page.wait_for_function("__kvxray.residency.centreOf(1) !== null")
    assert page.evaluate(
        "[...inside('residency', '.tenants tbody').rows].map(row => [...row.cells].filter(one => !one.hidden).length)"
    ) == [2, 2, 2]
    before = page.evaluate(PIXEL, 3)
    press(page, "eded", "residency")
    page.wait_for_function("__kvxray.residency.ofTenant() === 3")
    page.wait_for_function(f"({PIXEL})(3) !== '{before}'")
    assert page.evaluate(PIXEL, 1) == before, "what is of the tenant keeps its colour, all others step back"
    page.keyboard.press("Escape")
    page.wait_for_function("__kvxray.residency.ofTenant() === 0")
    assert page.evaluate(PIXEL, 3) == before


PIXEL = """ordinal => {
  const [x, y] = __kvxray.residency.centreOf(ordinal);
  const canvas = inside('residency', '.cells');
  const box = canvas.getBoundingClientRect();
  const scale = canvas.width / box.width;
  return canvas.getContext('2d').getImageData((x - box.left) * scale, (y - box.top + 9) * scale, 1, 1).data.join();
}"""


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("state", ["shares", "chosen", "nothing"])
def test_axe_finds_nothing(page: Page, backend: ScriptedBackend, mount: Mount, theme: str, state: str) -> None:
    turn_to(page, theme)
    backend.findings = [CROSSING]
    backend.answers["tenants/blocks"] = {"unit": "blocks", "num": 1, "runs": [[4, 1]], "left_out": 0}
    backend.answers["tenants"] = nobody_told() if state == "nothing" else tenants_view()
    mount("tenants", wait=False)
    wait_for(page, ".note b" if state == "nothing" else "tbody", "not told" if state == "nothing" else "b1b1")
    if state == "chosen":
        press(page, "b1b1")
        page.wait_for_function("inside('tenants', 'tr[data-chosen]') !== null")
    assert_accessible(page, f"{state}, {theme}")
