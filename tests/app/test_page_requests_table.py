"""The table of requests in a real browser: what a row says."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from tests.app.scripted_backend import ScriptedBackend
from tests.app.test_page_panels import Mount, request_row

pytestmark = pytest.mark.browser


def test_the_blocks_of_a_request_and_those_of_them_that_are_shared_are_told_apart(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    backend.requests = [
        {**request_row(1, "agent-1", "running", blocks=78), "shared_blocks": 33},
        request_row(2, "agent-2", "running", blocks=5),
    ]
    mount("requests_table")
    page.wait_for_function("inside('requests_table', 'tbody tr')")
    cells = page.evaluate("[...inside('requests_table', 'tbody').rows].map(row => row.cells[5].textContent)")
    assert cells == ["78, 33 shared", "5"]
