"""What is not observable, or not known, shows no number anywhere on the page: no digit is drawn for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kvxray_app import formats
from kvxray_app.words import tiles
from playwright.sync_api import Page

from tests.app.scripted_backend import ScriptedBackend, figure

pytestmark = pytest.mark.browser

Mount = Callable[..., None]
BLOCK_UNITS = {"leaked": "blocks", "leaked_only": "blocks", "running": "requests", "waiting": "requests"}
FIGURES = sorted({name for tile in tiles() for name in (tile["key"], tile.get("second")) if name})


class UntoldBackend(ScriptedBackend):
    """Not even the counts of blocks are told."""

    def _state(self) -> dict[str, Any]:
        state = super()._state()
        return state | {"counts": {name: unknown("blocks") for name in state["counts"]}}


def unknown(unit: str) -> dict[str, Any]:
    return figure(None, unit, "not_observable")


def text_of(page: Page, component: str, selector: str) -> list[str]:
    """The text of all such elements, as it is drawn."""
    found: list[str] = page.evaluate(
        "([name, selector]) => [...inside(name, '.kx').querySelectorAll(selector)].map((node) => node.innerText)",
        [component, selector],
    )
    return found


def assert_no_digit(texts: list[str]) -> None:
    assert texts
    assert [text for text in texts if any(character.isdigit() for character in text)] == []


@pytest.fixture
def backend() -> Any:
    with UntoldBackend().serving() as scripted:
        scripted.figures = {name: unknown(BLOCK_UNITS.get(name, "ratio")) for name in FIGURES}
        yield scripted


@pytest.mark.parametrize("unit", ["blocks", "tokens", "bytes"])
def test_a_tile_draws_no_digit_for_what_is_not_observable(page: Page, mount: Mount, unit: str) -> None:
    page.evaluate("unit => localStorage.setItem('kvxray-unit', unit)", unit)
    mount("kpi_tiles")
    page.wait_for_function("inside('kpi_tiles', '.second').textContent === 'not observable'")
    assert_no_digit(text_of(page, "kpi_tiles", ".row, .second"))
    assert set(text_of(page, "kpi_tiles", ".value")) == {formats.NO_DATA}
    assert page.evaluate("[...inside('kpi_tiles', '.state-bar').children].every((part) => part.hidden)")


def test_one_figure_that_is_told_says_nothing_of_those_that_are_not(
    page: Page, mount: Mount, backend: ScriptedBackend
) -> None:
    """The words beside a figure are made of others."""
    for told in tiles():
        value = figure(0.25, "ratio") if told["key"] not in BLOCK_UNITS else figure(3, BLOCK_UNITS[told["key"]])
        backend.figures |= {told["key"]: value}
    mount("kpi_tiles")
    page.wait_for_function("inside('kpi_tiles', '[data-key=used] .value').textContent === '25.0%'")
    seconds = dict(zip([tile["key"] for tile in tiles()], text_of(page, "kpi_tiles", ".second"), strict=True))
    untold = {tile["key"] for tile in tiles() if tile.get("second")} | {"used", "cached", "shared"} & seconds.keys()
    assert_no_digit([seconds[key].replace("of 8 blocks", "") for key in untold])


def test_a_request_of_which_nothing_is_known_has_no_digit(page: Page, mount: Mount, backend: ScriptedBackend) -> None:
    backend.requests = [
        {
            "request_id": "quiet", "ordinal": 1, "status": "running", "prompt_tokens": None, "output_tokens": None,
            "hit_tokens": None, "blocks": None, "shared_blocks": None, "leaked_blocks": None, "arrived_at": None,
            "ended_at": None, "ttft_s": unknown("seconds"), "preemptions": 0,
        }
    ]  # fmt: skip
    mount("requests_table")
    page.wait_for_function("inside('requests_table', 'tbody').children.length === 1")
    assert_no_digit(text_of(page, "requests_table", "td, .panel-head"))


def test_a_lag_that_is_not_known_is_no_number(page: Page, mount: Mount, backend: ScriptedBackend) -> None:
    told = backend._source()
    backend._source = lambda: told | {"lag_s": unknown("seconds"), "gaps": None, "drops": None}  # type: ignore[method-assign]
    mount("health_line")
    pieces = text_of(page, "health_line", ".piece")
    assert_no_digit([piece for piece in pieces if piece.split()[0] in ("lag", "gaps", "drops")])
