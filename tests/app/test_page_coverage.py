"""What can be known of an engine, panel by panel, in a real browser."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.app.residency_answers import coverage, forest, found, screen_data, tell
from tests.app.scripted_backend import ScriptedBackend

pytestmark = pytest.mark.browser

PANELS = (
    ("cached_set", "Cached prefixes", "derived", "Batches were lost."),
    ("block_map", "Block map by id", "not_observable", "Its events tell of hashes, not of blocks."),
    ("usage", "Cache in use", "exact", "Its metrics tell it."),
)


def test_every_panel_says_how_sure_it_is_why_and_what_spoils_it(page: Page, backend: ScriptedBackend) -> None:
    worse = [found(f"g{at}", severity="critical") for at in range(3)]
    tell(backend, forest(), findings=[*worse, found("f")], num_findings=4)
    backend.answers["coverage"] = coverage(*PANELS, taints=("f",))
    page.evaluate("data => mountComponent('residency', data)", screen_data())
    page.wait_for_function("inside('residency', '.coverage').children.length === 3")
    rows = page.evaluate("[...inside('residency', '.coverage').children].map(row => row.innerText.split('\\n'))")
    assert rows[0][:3] == ["Cache in use", "exact", "Its metrics tell it."]
    assert rows[1][:2] == ["Cached prefixes", "derived"]
    assert rows[2] == ["Block map by id", "not observable", "Its events tell of hashes, not of blocks."]
    counts = page.evaluate("[...inside('residency', '.counts').children].map(chip => chip.textContent)")
    assert counts == ["exact 1", "derived 1", "not observable 1"]
    # The finding is the last of four and not listed until it is asked for.
    assert page.evaluate("inside('residency', '[id=finding-f]')") is None
    page.evaluate("inside('residency', '.coverage .taints .link').click()")
    page.wait_for_function("inside('residency', '[id=finding-f]')?.matches(':focus')")


def test_what_becomes_known_is_told_without_loading_the_page_again(page: Page, backend: ScriptedBackend) -> None:
    tell(backend, forest())
    del backend.answers["coverage"]
    page.evaluate("data => mountComponent('residency', data)", screen_data())
    page.wait_for_function("inside('residency', '[aria-label^=\"What can be known\"] .note')?.hidden === false")
    backend.answers["coverage"] = coverage(*PANELS)
    page.wait_for_function("inside('residency', '.coverage').children.length === 3")
