"""Pages of engines that are watched from outside are accessible: axe finds nothing, in the dark and in the light."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

from tests.app.residency_answers import EXPLANATION, forest, found, hash_view, link, screen_data, summary, tell
from tests.app.scripted_backend import ScriptedBackend, component_data

pytestmark = pytest.mark.browser

RULES: dict[str, Any] = {
    "rules": {name: {"enabled": False} for name in ("document-title", "html-has-lang", "landmark-one-main", "region")}
    | {"page-has-heading-one": {"enabled": False}}
}
"""Off: those of a whole page, which a bare one for components is not."""


def turn_to(page: Page, theme: str) -> None:
    colour = {"dark": "#0b0e14", "light": "#f6f7f9"}[theme]
    page.evaluate("c => document.body.style.cssText += `;--st-background-color:${c};background:${c}`", colour)


def assert_accessible(page: Page, what: str) -> None:
    violations = Axe().run(page, options=RULES).response["violations"]
    wrong = [
        f"{rule['id']}: {node['html'][:160]} {node['failureSummary']}" for rule in violations for node in rule["nodes"]
    ]
    assert not wrong, f"{what}:\n" + "\n".join(sorted(set(wrong)))


@pytest.mark.parametrize("theme", ["dark", "light"])
@pytest.mark.parametrize("state", ["live", "past", "stale", "chosen", "metrics"])
def test_axe_finds_nothing_on_the_live_page(page: Page, backend: ScriptedBackend, theme: str, state: str) -> None:
    changed: dict[str, Any] = {"findings": [found("a"), found("b", severity="critical")], "num_findings": 9}
    changed |= {"explanations": [EXPLANATION], "state": "stale" if state == "stale" else "connected"}
    if state == "metrics":
        changed |= {"kind": "metrics", "epoch": None, "seq": None, "descriptor": None, "places": []}
    tell(backend, forest(), **changed)
    backend.answers["residency/hash"] = hash_view(2, parent=link(1), is_root=False, children=[link(3)], num_children=1)
    if state in ("past", "chosen"):
        page.goto(f"{backend.url}/?{'at=1.90' if state == 'past' else 'hash=' + link(2)['hash']}")
        page.wait_for_function("window.ready")
    turn_to(page, theme)
    kind = "metrics" if state == "metrics" else "hashes"
    page.evaluate("data => mountComponent('residency', data)", screen_data(kind))
    page.wait_for_function("inside('residency', '.coverage li') !== null")
    if state == "chosen":
        page.wait_for_function("inside('residency', '.inspector .children li') !== null")
    assert_accessible(page, f"{state}, {theme}")


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_axe_finds_nothing_on_the_timelines(page: Page, backend: ScriptedBackend, theme: str) -> None:
    now = int(page.evaluate("Math.floor(Date.now() / 1000)"))
    series = {"cached": [1, 2], "stores_per_s": [1, 1], "evictions_per_s": [0, 0]}
    backend.answers["course"] = {"t": [now - 60, now - 50], "seconds": 10, "series": series}
    backend.answers["residency"] = summary()
    page.goto(f"{backend.url}/?at=1.90")
    page.wait_for_function("window.ready")
    turn_to(page, theme)
    page.evaluate("data => mountComponent('foreign_course', data)", component_data(kind="hashes", engine="demo"))
    page.wait_for_function("inside('foreign_course', '.lack').textContent !== ''")
    assert_accessible(page, theme)
