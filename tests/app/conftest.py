"""A real Chromium for tests of the page's modules; every test gets a page of its own on a scripted backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.app.browser import CHROMIUM_FLAGS, require_chromium
from tests.app.scripted_backend import ScriptedBackend, component_data


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
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
