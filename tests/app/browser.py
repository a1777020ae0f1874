"""Where Chromium is on this machine and how tests start it: without a GPU, and without a word to the internet."""

from __future__ import annotations

import os
import shutil

import pytest

PATIENCE_MS = 90_000
"""How long a page may take for what a test waits for: as long as a machine that is busy with other things needs."""

CHROMIUM_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def find_chromium() -> str | None:
    """Path of a Chromium or Chrome, or None."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for path in map(shutil.which, names) if path), None)


def require_chromium() -> str:
    """Path of a Chromium; without one the test is skipped, saying so, and fails where CI runs it."""
    executable = find_chromium()
    if executable is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("needs Chromium: install the package chromium")
    return executable
