"""The fleet in a real browser: one line an engine, sorted, filtered and stable; unknown is never a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kvxray_app.components.fleet import COLUMNS, STATES, fleet_words
from playwright.sync_api import Page
from streamlit.testing.v1 import AppTest

from tests.app.fleet_answers import fleet_answer, fleet_engine
from tests.app.scripted_backend import ScriptedBackend

pytestmark = pytest.mark.browser

Mount = Callable[..., None]
FULL = {"usage": 0.9, "hit_rate": 0.25, "evictions_per_s": 4.0, "cached_blocks": 22, "capacity_blocks": 23}
NAMES = "[...inside('fleet', 'tbody').rows].map((row) => row.dataset.engine)"


def show(page: Page, backend: ScriptedBackend, mount: Mount, *engines: dict[str, Any]) -> None:
    backend.answers["engines"] = fleet_answer(*engines)
    mount("fleet", wait=False, fleet=fleet_words())
    page.wait_for_function("() => !inside('fleet', '.note.panel').textContent.startsWith('Looking')")


def names(page: Page) -> list[str]:
    found: list[str] = page.evaluate(NAMES)
    return found


def wait_for_names(page: Page, wanted: list[str]) -> None:
    page.wait_for_function(f"wanted => JSON.stringify({NAMES}) === JSON.stringify(wanted)", arg=wanted)


def cell(page: Page, engine: str, selector: str) -> str:
    where = f"tr[data-engine='{engine}'] {selector}"
    found: str = page.evaluate("where => inside('fleet', where).textContent.trim()", where)
    return found


def sort_by(page: Page, column: str) -> str:
    """Press its head; what a screen reader hears of the order."""
    page.evaluate(f"inside('fleet', 'th[data-column={column}] button').click()")
    heard: str = page.evaluate(f"inside('fleet', 'th[data-column={column}]').getAttribute('aria-sort')")
    return heard


def type_filter(page: Page, text: str) -> None:
    page.evaluate(
        "text => { const box = inside('fleet', 'input'); box.value = text; box.dispatchEvent(new Event('input')); }",
        text,
    )


def test_a_line_says_how_an_engine_is_and_what_it_does_not_tell_is_no_number(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    silent = fleet_engine("silent", {"hit_rate": None}, make="sglang", status="cannot_tell", removable=False)
    show(page, backend, mount, fleet_engine("full", FULL, num_findings=3), silent)
    assert cell(page, "full", "[data-figure=cached]") == "22 / 23"
    assert cell(page, "full", "[data-figure=usage]") == "90.0%"
    assert cell(page, "full", ".coverage") == "9 exact · 4 derived · 12 not"
    assert cell(page, "full", "th") == "fullvLLM  ·  tinyA sentence on full."
    assert cell(page, "silent", "[data-figure=hit_rate]") == "—"
    for figure in ("usage", "cached", "running", "waiting", "evictions_per_s"):
        assert cell(page, "silent", f"[data-figure={figure}]") == "not observable"
    assert page.evaluate("inside('fleet', 'tr[data-engine=silent] button').hidden")
    assert page.evaluate("inside('fleet', 'tr[data-engine=full] a').href") == f"{backend.url}/?source=full"


@pytest.mark.parametrize("width", [700, 800, 1000, 1280, 1920])
def test_what_is_not_observable_stays_in_its_column(
    page: Page, backend: ScriptedBackend, mount: Mount, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    show(page, backend, mount, fleet_engine("silent", {}))
    outside = page.evaluate(
        """() => [...inside('fleet', 'tr[data-engine=silent]').querySelectorAll('[data-figure]')].filter((cell) => {
          const [box, words] = [cell, cell.querySelector('.value')].map((node) => node.getBoundingClientRect());
          return words.left < box.left || words.right > box.right + 0.5;
        }).map((cell) => cell.dataset.figure)"""
    )
    assert outside == []
    lines = page.evaluate(
        """() => {
          const cells = inside('fleet', 'tr[data-engine=silent]').querySelectorAll('[data-figure] .value');
          return [...cells].map((words) => {
            const range = document.createRange();
            range.selectNodeContents(words);
            return new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size;
          });
        }"""
    )
    assert set(lines) <= {1, 2}, "a word is broken"


def test_the_worst_comes_first_and_each_head_sorts_with_the_unknown_last(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    show(
        page, backend, mount,
        fleet_engine("b", {"hit_rate": 0.5}, num_findings=2), fleet_engine("a10"), fleet_engine("a2"),
        fleet_engine("bad", {"hit_rate": 0.0}, status="critical", sentence="Bad."),
    )  # fmt: skip
    assert names(page) == ["bad", "a2", "a10", "b"]
    assert sort_by(page, "hit_rate") == "descending"
    assert names(page) == ["b", "bad", "a2", "a10"]
    assert sort_by(page, "hit_rate") == "ascending"
    assert names(page) == ["bad", "b", "a2", "a10"]
    assert page.evaluate("inside('fleet', 'thead').querySelectorAll('[aria-sort]').length") == 1
    for column in COLUMNS:
        assert sort_by(page, column.key) in ("ascending", "descending")
        assert sorted(names(page)) == ["a10", "a2", "b", "bad"]


def test_heads_sort_by_keyboard(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    show(page, backend, mount, fleet_engine("a"), fleet_engine("b", num_findings=1))
    page.evaluate("inside('fleet', 'th[data-column=findings] button').focus()")
    page.keyboard.press("Enter")
    assert names(page) == ["b", "a"]
    page.keyboard.press("Space")
    assert names(page) == ["a", "b"]


def test_the_order_follows_the_engines_but_not_under_somebodys_hands(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    show(page, backend, mount, fleet_engine("a"), fleet_engine("b"))
    page.evaluate("inside('fleet', 'tr[data-engine=b] a').focus()")
    backend.answers["engines"] = fleet_answer(fleet_engine("a"), fleet_engine("b", status="critical"))
    page.wait_for_function("inside('fleet', 'tr[data-engine=b]').dataset.status === 'critical'")
    assert names(page) == ["a", "b"]
    assert page.evaluate("inside('fleet', 'a.engine:focus')?.textContent") == "b"
    page.evaluate("inside('fleet', 'tr[data-engine=b] a').blur()")
    wait_for_names(page, ["b", "a"])


def test_engines_come_and_go(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    show(page, backend, mount)
    page.wait_for_function("inside('fleet', '.note b').textContent === 'No engine to follow yet'")
    assert page.evaluate("inside('fleet', '.note a').href") == f"{backend.url}/attach"
    backend.answers["engines"] = fleet_answer(fleet_engine("a"), fleet_engine("b"))
    wait_for_names(page, ["a", "b"])
    backend.answers["engines"] = fleet_answer(fleet_engine("b"))
    wait_for_names(page, ["b"])


def test_the_filter_takes_several_words_and_says_how_many_are_left(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    here = fleet_engine("one", labels={"node": "gpu-7"}, make="sglang")
    show(page, backend, mount, here, fleet_engine("two", state="stale"), fleet_engine("three", status="critical"))
    type_filter(page, "SGLang node=gpu-7")
    assert names(page) == ["one"]
    assert page.evaluate("inside('fleet', '.panel-head .muted').textContent").startswith("1 of 3 engines")
    type_filter(page, "act now")
    assert names(page) == ["three"]
    type_filter(page, "not heard")
    assert names(page) == ["two"]
    type_filter(page, "nobody")
    assert page.evaluate("inside('fleet', '.panel .note').textContent") == "No engine fits “nobody”."
    type_filter(page, "")
    assert len(names(page)) == 3


def test_what_is_wrong_with_the_list_of_engines_is_said(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    show(page, backend, mount, fleet_engine("a"))
    assert page.evaluate("inside('fleet', '.problems').hidden")
    problem = {"where": "engines.yaml", "sentence": "Line 3 is no engine.", "since": "2026-01-01T00:00:00.000Z"}
    backend.answers["engines"] = {**fleet_answer(), "problems": [problem]}
    page.wait_for_function("inside('fleet', '.problems').textContent === 'engines.yaml: Line 3 is no engine.'")
    assert not page.evaluate("inside('fleet', '.problems').hidden")


def test_a_backend_that_does_not_answer_is_said_and_what_was_shown_stays(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    mount("fleet", wait=False, fleet=fleet_words())
    page.wait_for_function("inside('fleet', '.trouble').textContent === 'There is no such thing.'")
    backend.answers["engines"] = fleet_answer(fleet_engine("a"))
    wait_for_names(page, ["a"])
    del backend.answers["engines"]
    page.wait_for_function("inside('fleet', '.trouble').textContent.endsWith('Trying again.')")
    assert names(page) == ["a"]


def test_an_engine_is_removed_only_after_a_question(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    show(page, backend, mount, fleet_engine("a"), fleet_engine("b c"))
    page.evaluate("inside('fleet', 'tr[data-engine=\"b c\"] button').click()")
    assert page.evaluate("inside('fleet', 'dialog h2').textContent") == "Remove b c?"
    page.keyboard.press("Escape")
    assert not page.evaluate("inside('fleet', 'dialog').open")
    page.evaluate("inside('fleet', 'tr[data-engine=\"b c\"] button').click()")
    page.evaluate("inside('fleet', 'dialog .main-button').click()")
    page.wait_for_function("inside('fleet', 'dialog .problem').textContent === 'There is no such thing.'")
    backend.answers["engines/b c"] = {}
    backend.answers["engines"] = fleet_answer(fleet_engine("a"))
    page.evaluate("inside('fleet', 'dialog .main-button').click()")
    wait_for_names(page, ["a"])
    assert not page.evaluate("inside('fleet', 'dialog').open")
    assert backend.sent[-1] == ("DELETE", "engines/b c", None)


def test_hundreds_of_engines_all_stand_there_and_none_is_redrawn_without_a_change(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    engines = [fleet_engine(f"pod-{at}", {**FULL, "running": at, "waiting": 0}) for at in range(400)]
    show(page, backend, mount, *engines)
    assert len(names(page)) == 400
    page.evaluate("""() => {
        window.changes = 0;
        const seen = (records) => (window.changes += records.length);
        const all = { subtree: true, childList: true, characterData: true, attributes: true };
        new MutationObserver(seen).observe(inside('fleet', 'tbody'), all);
    }""")
    asked = len(backend.asked)
    while len(backend.asked) < asked + 3:
        page.wait_for_timeout(100)
    assert page.evaluate("changes") == 0
    backend.answers["engines"] = fleet_answer(fleet_engine("pod-0", {**FULL, "running": 500}), *engines[1:])
    page.wait_for_function(
        "inside('fleet', 'tr[data-engine=pod-0] [data-figure=running] .value').textContent === '500'"
    )
    assert page.evaluate("changes") < 10


def test_names_and_sentences_are_never_markup(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    evil = "<img src=x onerror=alert(1)>"
    show(page, backend, mount, fleet_engine("a", sentence=evil, model=evil, labels={"node": evil}))
    assert cell(page, "a", ".sentence") == evil
    assert page.evaluate("inside('fleet', 'img')") is None


def test_the_page_draws_itself() -> None:
    def script() -> None:
        from kvxray_app.views.fleet import fleet

        fleet()

    assert not AppTest.from_function(script, default_timeout=90).run().exception


def test_columns_and_states_have_words_of_their_own() -> None:
    assert len({column.label for column in COLUMNS}) == len({column.key for column in COLUMNS}) == len(COLUMNS)
    assert set(STATES) == {"waiting", "joining", "connected", "stale", "no_stream", "past"}
