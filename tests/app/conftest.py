"""A real Chromium for tests of the page's modules; every test gets a page of its own on a scripted backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.app.alerts_page import Alerts
from tests.app.browser import CHROMIUM_FLAGS, PATIENCE_MS, require_chromium
from tests.app.map_probe import ACTIVE, CACHED, EMPTY, FREE, SHARED
from tests.app.scripted_backend import ScriptedBackend, component_data


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """One for the folder, not for the whole run: while it lives, no test can run an event loop in the main thread."""
    executable = require_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def backend() -> Iterator[ScriptedBackend]:
    with ScriptedBackend().serving() as scripted:
        yield scripted


@pytest.fixture
def page(chromium: Browser, backend: ScriptedBackend) -> Iterator[Page]:
    """A bare page of the backend; fails the test when a script on it failed."""
    context = chromium.new_context(viewport={"width": 1000, "height": 800}, device_scale_factor=1)
    context.set_default_timeout(PATIENCE_MS)
    opened = context.new_page()
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("console", lambda message: errors.append(message.text) if "kvxray:" in message.text else None)
    opened.goto(backend.url)
    opened.wait_for_function("window.ready")
    yield opened
    context.close()
    assert not errors


@pytest.fixture
def mount(page: Page) -> Callable[..., None]:
    """Mount a component on the page, and wait until its feed is live when there is something to see."""

    def mount_component(name: str, wait: bool = True, **data: Any) -> None:
        page.evaluate("([name, data]) => mountComponent(name, data)", [name, component_data(**data)])
        if wait:
            page.wait_for_function("__kvxray.counts() !== null && __kvxray.status() === 'live'")

    return mount_component


@pytest.fixture
def alerts(page: Page, backend: ScriptedBackend, mount: Callable[..., None]) -> Alerts:
    return Alerts(page, backend, mount)


@pytest.fixture
def painted(page: Page, backend: ScriptedBackend, mount: Callable[..., None]) -> None:
    """A map whose blocks 1 to 5 are in five different states."""
    for block, (state, ref, slots) in enumerate(
        [(EMPTY, 0, 0), (FREE, 0, 0), (CACHED, 0, 16), (ACTIVE, 1, 16), (SHARED, 3, 16)], start=1
    ):
        backend.set_block(block, state, ref, slots)
    mount("block_map")
    page.wait_for_function("__kvxray.map.cellCentre(1) !== null")


@pytest.fixture
def many(page: Page, backend: ScriptedBackend, mount: Callable[..., None]) -> None:
    """A map of 3,000 blocks in stripes of 100 by state."""
    backend.resize(3001)
    for block in range(1, 3001):
        state = 1 + block // 100 % 5
        backend.set_block(block, state, ref=state - 3 if state >= ACTIVE else 0, slots=16)
    mount("block_map")
    page.wait_for_function("__kvxray.map.cellCentre(1) !== null")
