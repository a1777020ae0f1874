"""All pages of the app, as its own navigation names them: a new page is there by itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, expect

from tests.app.browser import PATIENCE_MS
from tests.e2e.demo_rig import until

LINKS = "[data-testid=stTopNavLink]"

# Streamlit has run the page and loaded all its parts, and every live component has got its colours, the first it does.
_DRAWN = """
() => document.querySelector('[data-testid=stApp][data-test-script-state=notRunning]')
  && !document.querySelector('[data-testid=stSkeleton]')
  && [...document.querySelectorAll('[data-testid=stBidiComponentIsolated] *')]
    .map((element) => element.shadowRoot?.querySelector('.kx'))
    .every((part) => !part || getComputedStyle(part).getPropertyValue('--kx-text'))
"""


class Tab:
    """A browser tab that knows what it asked for (path and status), and whether it waits for anything."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.asked: list[str] = []
        self.missing: list[str] = []
        self.errors: list[str] = []
        self._waits_for = 0
        page.on("request", lambda request: self._began(request.url))
        page.on("websocket", lambda websocket: self.asked.append(websocket.url))
        page.on("response", lambda response: self.missing.append(response.url) if response.status == 404 else None)
        page.on("requestfinished", lambda _: self._ended())
        page.on("requestfailed", lambda _: self._ended())
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def open(self, address: str) -> None:
        self.page.goto(address)
        self.page.locator(LINKS).first.wait_for()
        self.at_rest()

    def titles(self) -> list[str]:
        """The pages, in the order of the navigation."""
        return self.page.locator(LINKS).all_inner_texts()

    def turn_to(self, title: str) -> None:
        link = self.page.locator(LINKS).filter(has_text=title)
        address = link.evaluate("link => link.pathname")
        link.click()
        self.page.wait_for_function("address => location.pathname === address", arg=address)
        self.at_rest()

    def at_rest(self) -> None:
        """Waits until the page is drawn and nothing it asked for is still to come."""
        self.page.wait_for_function(_DRAWN)
        until(lambda: self._has_all() and self._has_all())

    def _has_all(self) -> bool:
        self.page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
        return self._waits_for <= 0

    def _began(self, address: str) -> None:
        self.asked.append(address)
        self._waits_for += 1

    def _ended(self) -> None:
        self._waits_for -= 1


@contextmanager
def patient_tab(browser: Browser) -> Iterator[Tab]:
    """A tab in which a story is told: wide and dark, waiting as long as a busy machine needs; no script may fail."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000}, color_scheme="dark")
    context.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    tab = Tab(context.new_page())
    yield tab
    context.close()
    expect.set_options(timeout=None)
    assert not tab.errors, f"a script on the page failed: {tab.errors}"
