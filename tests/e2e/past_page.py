"""What a person does and sees on the page in the past: steps of the story in `test_past_page.py`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Page

from tests.e2e.demo_rig import until
from tests.e2e.told_engine import ToldEngine


def state_at(told: ToldEngine, at: str) -> dict[str, Any]:
    state: dict[str, Any] = told.rig.get("state", at=at)
    return state


def counts_of(state: dict[str, Any]) -> dict[str, int]:
    return {name: figure["value"] for name, figure in state["counts"].items()}


def panel(page: Page, name: str) -> str:
    return page.locator(f".st-key-{name} .kx").inner_text()


def place(page: Page, share: float) -> tuple[float, float]:
    """Where so much of the time that the bar shows is, in page coordinates."""
    time = "({ from, to }, share) => __kvxray.time.place(from + share * (to - from))"
    spot = page.evaluate(f"share => ({time})(__kvxray.time.shown(), share)", share)
    return spot["x"], spot["y"]


def arrive(page: Page, *, at: str | None = None) -> str:
    """Waits until the page has got where it goes; the moment it shows."""
    page.wait_for_function(
        "at => __kvxray.status() === 'past' && !__kvxray.onTheWay() && __kvxray.counts()"
        " && /^\\d+\\.\\d+$/.test(__kvxray.at() ?? '')"
        " && (at === null || __kvxray.at() === at)",
        arg=at,
    )
    shown: str = page.evaluate("__kvxray.at()")
    return shown


def press(page: Page, share: float) -> str:
    """Press the bar there; the moment that the page shows then."""
    page.wait_for_function("__kvxray.time?.whole()")
    before = page.evaluate("__kvxray.at()")
    page.mouse.click(*place(page, share))
    page.wait_for_function("before => __kvxray.at() !== before", arg=before)
    return arrive(page)


def wait_for_address(page: Page, part: str) -> None:
    page.wait_for_function("part => location.search.includes(part)", arg=part)


def assert_shows(page: Page, told: ToldEngine, at: str) -> None:
    """Blocks, seq and the words on the page are those of the API at that moment."""
    state = state_at(told, at)
    assert page.evaluate("__kvxray.counts()") == counts_of(state)
    assert f"{page.evaluate('__kvxray.epoch()')}.{page.evaluate('__kvxray.seq()')}" == at
    until(lambda: at in panel(page, "health_line"))
    told_counts = {name: str(counts_of(state)[name]) for name in ("cached", "active", "shared")}
    until(lambda: legend_of(page) == told_counts)
    used = state["figures"]["used"]["value"]
    tile = page.locator(".st-key-kpi_tiles [data-key=used] .value")
    until(lambda: abs(float(tile.inner_text().rstrip("%")) - used * 100) <= 0.0501)


def legend_of(page: Page) -> dict[str, str]:
    """The counts above the map, as they are written."""
    legend = page.locator(".st-key-block_map .legend").inner_text()
    return dict(re.findall(r"(cached|active|shared)\s+([\d,]+)", legend))


def rows_of(page: Page) -> list[str]:
    """The table of requests, a line a request."""
    return page.locator(".st-key-requests_table tbody tr").all_inner_texts()


def opened_by(page: Page, press_link: Callable[[], None]) -> Page:
    """The page that a link opens, once it shows blocks."""
    known = page.context.pages

    def others() -> list[Page]:
        press_link()
        return [other for other in page.context.pages if other not in known]

    opened, *more = until(others)
    for other in more:
        other.close()
    opened.wait_for_function("window.__kvxray?.counts() != null")
    return opened


def json_of(told: ToldEngine, at: str) -> str:
    """Counts as the browser writes them."""
    counts = counts_of(state_at(told, at))
    return "{" + ",".join(f'"{name}":{count}' for name, count in counts.items()) + "}"


def foot_of(page: Page, part: str) -> float:
    """Where a part of the page ends, in CSS pixels."""
    box = page.locator(part).bounding_box()
    return box["y"] + box["height"] if box else float("nan")
