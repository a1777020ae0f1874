"""A real Chromium on the real product; what the page asks for and complains about is written down."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.app.browser import CHROMIUM_FLAGS, require_chromium
from tests.e2e.pages import Tab, patient_tab


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    executable = require_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def tab(chromium: Browser) -> Iterator[Tab]:
    """Where a file tells a story."""
    with patient_tab(chromium) as tab:
        yield tab
