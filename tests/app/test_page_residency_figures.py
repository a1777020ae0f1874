"""Figures, health and places of an engine that is watched from outside: what is not known is never a number."""

from __future__ import annotations

from typing import Any

import pytest
from kvxray_app.components.residency_words import TILES
from playwright.sync_api import Page

from tests.app.residency_answers import forest, found, place, screen_data, summary, tell
from tests.app.scripted_backend import ScriptedBackend, figure
from tests.app.test_page_residency import text, wait_for

pytestmark = pytest.mark.browser


def mount(page: Page, backend: ScriptedBackend, **changed: Any) -> None:
    kind = changed.get("kind", "hashes")
    tell(backend, forest() if kind == "hashes" else [], **changed)
    page.evaluate("data => mountComponent('residency', data)", screen_data(kind))
    page.wait_for_function("inside('residency', '.coverage li') !== null")


def tip_of(page: Page, selector: str) -> str:
    page.evaluate("s => inside('residency', s).focus()", selector)
    found: str = page.evaluate("inside('residency', '.kx-tip').innerText")
    return found


def test_a_figure_is_a_number_an_em_dash_with_its_reason_or_says_that_it_is_not_told(
    page: Page, backend: ScriptedBackend
) -> None:
    mount(page, backend)
    assert text(page, "[data-figure=cached_blocks] .value") == "5"
    assert text(page, "[data-figure=cached_blocks] .second") == "1 of them maybe"
    assert text(page, "[data-figure=usage] .value") == "0.0%"
    assert text(page, "[data-figure=usage] .second") == "of 23 blocks"
    assert text(page, "[data-figure=hit_rate] .value") == "—"
    assert "No value: No prompt was looked up lately." in tip_of(page, "[data-figure=hit_rate]")
    assert text(page, "[data-figure=running] .value") == "not observable"
    assert text(page, "[data-figure=running] .second") == ""


def test_nothing_that_is_unknown_is_shown_as_a_number(page: Page, backend: ScriptedBackend) -> None:
    untold = {name: figure(None, told["unit"], "not_observable") for name, told in summary()["figures"].items()}
    mount(page, backend, figures=untold, places=[], state="waiting", epoch=None, seq=None, gaps=None, late=None)
    shown = page.evaluate("[...inside('residency', '.tiles').querySelectorAll('.value')].map(one => one.textContent)")
    assert shown == ["not observable"] * len(TILES)
    pieces = text(page, ".pieces")
    assert "gaps —" in pieces
    assert "event —" in pieces


def test_what_spoils_a_figure_is_marked_and_said(page: Page, backend: ScriptedBackend) -> None:
    told = summary()["figures"]
    told["cached_blocks"] |= {"taints": ["f"], "certainty": "derived"}
    mount(page, backend, figures=told, findings=[found("f")], num_findings=1)
    assert not page.evaluate("inside('residency', '[data-figure=cached_blocks] .taint').hidden")
    assert page.evaluate("inside('residency', '[data-figure=usage] .taint').hidden")
    assert "Spoiled by: 12 batches were lost." in tip_of(page, "[data-figure=cached_blocks]")


def test_two_numbers_that_rightly_differ_are_explained(page: Page, backend: ScriptedBackend) -> None:
    why = "0 % of the cache is in use while 22 of 23 blocks are cached: in use are blocks that requests hold."
    mount(page, backend, explanations=[{"panel": "usage", "sentence": why}])
    assert text(page, ".explanations li") == why


def test_a_place_tells_what_is_certain_and_that_its_capacity_is_not_told(page: Page, backend: ScriptedBackend) -> None:
    full = place(1, "", "GPU", 1, copies=40)
    full |= {"capacity": figure(80, "blocks"), "unreachable": figure(8, "blocks")}
    mount(page, backend, places=[place(0, "", "GPU", 0, copies=4, maybe=1), full])
    rows = page.evaluate(
        "[...inside('residency', '.places').children].map(row => row.innerText.replaceAll('\\n', ' '))"
    )
    assert "capacity not observable" in rows[0]
    assert "3 certain" in rows[0]
    assert "1 maybe" in rows[0]
    assert "40 of 80" in rows[1]
    assert "group 1, sliding window" in rows[1]
    assert "8 unreachable" in rows[1]


def test_a_stale_engine_and_a_backend_that_does_not_answer_are_said(page: Page, backend: ScriptedBackend) -> None:
    mount(page, backend, state="stale", gaps=3)
    assert text(page, ".phase").startswith("Stale since")
    assert page.evaluate("inside('residency', '[data-figure=cached_blocks]').hasAttribute('data-old')")
    assert page.evaluate("inside('residency', '.piece[data-alarm]').textContent") == "gaps 3"
    del backend.answers["residency"]
    wait_for(page, ".trouble", "There is no such thing. What is shown is of")
    assert text(page, ".phase") == "Out of date"
    tell(backend, forest())
    page.wait_for_function("inside('residency', '.trouble').hidden")
    assert text(page, ".phase") == "Live"


def test_metrics_that_fail_are_said(page: Page, backend: ScriptedBackend) -> None:
    failing = {"state": "failing", "sentence": "Nobody answers at http://h/metrics.", "last": None}
    mount(page, backend, metrics=failing)
    assert "metrics failing" in text(page, ".pieces")
    assert "Nobody answers at http://h/metrics." in tip_of(page, ".piece[data-alarm]")


def test_an_engine_known_by_metrics_only_says_how_to_know_more(page: Page, backend: ScriptedBackend) -> None:
    changed = {"state": "no_stream", "epoch": None, "seq": None, "descriptor": None, "places": []}
    mount(page, backend, kind="metrics", **changed)
    assert text(page, ".phase") == "Metrics only"
    assert page.evaluate("inside('residency', '.map')") is None
    assert page.evaluate("inside('residency', '.how a').href").startswith(f"{backend.url}/attach")
    page.wait_for_timeout(1500)
    assert "residency/map" not in backend.asked
    assert "events" not in backend.asked


def test_why_nothing_can_be_heard_is_said(page: Page, backend: ScriptedBackend) -> None:
    mount(page, backend, state="waiting", trouble="Nobody answers at tcp://gpu-7:5557.")
    assert text(page, ".trouble") == "Nobody answers at tcp://gpu-7:5557."
    tell(backend, forest())
    page.wait_for_function("inside('residency', '.trouble').hidden")
