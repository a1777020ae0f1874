"""How the tiles lie in narrow and low windows, in a real browser: no label cut, values level, low beside two maps."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from tests.app.map_probe import open_at
from tests.app.scripted_backend import ScriptedBackend, figure

pytestmark = pytest.mark.browser

Mount = Callable[..., None]

# Of the tiles that begin level with each other, the tops of their values.
LEVELS = """() => {
  const rows = new Map();
  for (const tile of inside("kpi_tiles", ".tiles").children) {
    const top = tile.getBoundingClientRect().top;
    const value = tile.querySelector(".value").getBoundingClientRect().top;
    rows.set(top, [...(rows.get(top) ?? []), value]);
  }
  return [...rows.values()];
}"""
CUT = """() => [...inside("kpi_tiles", ".tiles").querySelectorAll(".label span:first-child")]
  .filter(label => label.scrollWidth > label.clientWidth).map(label => label.textContent)"""
LINES = """([key, part]) => {
  const node = inside("kpi_tiles", `[data-key=${key}] ${part}`);
  return Math.round(node.getBoundingClientRect().height / parseFloat(getComputedStyle(node).lineHeight));
}"""


def widen(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width + 40, "height": 1000})
    page.evaluate("width => document.body.style.width = `${width}px`", width)


@pytest.fixture
def tiles(backend: ScriptedBackend, mount: Mount) -> None:
    backend.figures = {"leaked": figure(0, "blocks"), "ttft_p50_s": figure(0.358, "seconds", "derived")}
    mount("kpi_tiles")


@pytest.mark.usefixtures("tiles")
@pytest.mark.parametrize("width", [640, 770, 980, 1240, 1880])
def test_no_label_is_cut(page: Page, width: int) -> None:
    widen(page, width)
    assert page.evaluate(CUT) == []


@pytest.mark.usefixtures("tiles")
@pytest.mark.parametrize("width", [640, 770, 980, 1240, 1880])
def test_values_of_tiles_side_by_side_are_level_whatever_wraps(page: Page, width: int) -> None:
    page.wait_for_function("inside('kpi_tiles', '[data-key=leaked] .second').textContent === 'every hold has an owner'")
    widen(page, width)
    if width == 770:
        assert page.evaluate(LINES, ["ttft_p50_s", ".label"]) == 2
        assert page.evaluate(LINES, ["leaked", ".second"]) == 2
    rows = page.evaluate(LEVELS)
    assert len(rows) == {640: 5, 1880: 1}.get(width, 2)
    assert [len({round(top) for top in row}) for row in rows] == [1] * len(rows)


@pytest.mark.parametrize("beside", ["", "&with=1.80"])
def test_beside_two_maps_tiles_are_low_in_a_low_window_only(
    page: Page, backend: ScriptedBackend, mount: Mount, beside: str
) -> None:
    summary = backend.summary()
    summary["state"] |= {"at": "1.90", "seq": "1.90"}
    backend.answers["summary"] = summary
    open_at(page, backend, f"at=1.90{beside}")
    mount("kpi_tiles", wait=False)
    page.wait_for_function("__kvxray.status() === 'past' && __kvxray.counts() !== null")

    def height(window: int) -> float:
        page.set_viewport_size({"width": 1000, "height": window})
        told: float = page.evaluate("inside('kpi_tiles', '.tiles').getBoundingClientRect().height")
        return told

    ratio = height(800) / height(1000)
    assert ratio < 0.7 if beside else ratio == 1
