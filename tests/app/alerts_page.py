"""The alerts on a bare page, and what a reader does with them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kvxray_app.components.alerts import alerts_words
from playwright.sync_api import Page

from tests.app.alerts_answers import alerts_answer, rule, rules_answer
from tests.app.fleet_answers import fleet_answer, fleet_engine
from tests.app.scripted_backend import ScriptedBackend

Mount = Callable[..., None]


class Alerts:
    """The component on a bare page, and what a reader does with it."""

    def __init__(self, page: Page, backend: ScriptedBackend, mount: Mount) -> None:
        self.page, self.backend, self.mount = page, backend, mount
        backend.answers["engines"] = fleet_answer(fleet_engine("demo"), fleet_engine("gpu-7"))
        backend.answers["rules"] = rules_answer(rule())
        self.fire()

    def fire(self, *alerts: dict[str, Any], **changed: Any) -> None:
        self.backend.answers["alerts"] = alerts_answer(*alerts, **changed)

    def open(self, query: str = "") -> None:
        if query:
            self.page.goto(f"{self.backend.url}/{query}")
            self.page.wait_for_function("window.ready")
        self.mount("alerts", wait=False, alerts=alerts_words())
        self.page.wait_for_function("!inside('alerts', '.body').hidden")

    def text(self, selector: str) -> str:
        found: str = self.page.evaluate("where => inside('alerts', where).innerText.trim()", selector)
        return found

    def has(self, selector: str, text: str) -> None:
        """Waits until it says so."""
        said = "([where, text]) => inside('alerts', where)?.innerText.includes(text)"
        self.page.wait_for_function(said, arg=[selector, text])

    def has_sent(self, request: tuple[str, str, Any]) -> None:
        """Waits until the page has asked for it, as the last so far."""
        until = time.monotonic() + 30
        while self.backend.sent[-1:] != [request]:
            assert time.monotonic() < until, self.backend.sent
            self.page.wait_for_timeout(20)

    def shows(self, selector: str) -> bool:
        shown: bool = self.page.evaluate("where => inside('alerts', where)?.checkVisibility() ?? false", selector)
        return shown

    def press(self, selector: str) -> None:
        self.page.wait_for_function("where => inside('alerts', where)?.checkVisibility()", arg=selector)
        self.page.evaluate("where => inside('alerts', where).click()", selector)

    def href(self, selector: str) -> str:
        found: str = self.page.evaluate("where => inside('alerts', where).href", selector)
        return found

    def names(self, selector: str) -> list[str]:
        script = "where => [...inside('alerts', '.body').querySelectorAll(where)].map((node) => node.innerText)"
        found: list[str] = self.page.evaluate(script, selector)
        return found
