"""What measuring the live page stands on: a generated engine, `kvxray serve` that follows it, and a page on it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import psutil
from playwright.sync_api import Browser, Page, ViewportSize

START_S = 120
VIEWPORT: ViewportSize = {"width": 1600, "height": 1000}
T = TypeVar("T")
SHOWS_BLOCKS = "blocks => Object.values(window.__kvxray?.counts() ?? {}).reduce((a, b) => a + b, 0) === blocks"


def opened(browser: Browser, url: str, blocks: int, viewport: ViewportSize = VIEWPORT) -> Page:
    """A live page that shows so many blocks."""
    page = browser.new_page(viewport=viewport)
    page.goto(url, wait_until="commit")
    page.wait_for_function(SHOWS_BLOCKS, arg=blocks, timeout=1000 * START_S)
    return page


@contextmanager
def engine(blocks: int, changes: int) -> Iterator[str]:
    """EVENTS,REPLAY of an engine whose pool is filled."""
    command = [sys.executable, "-m", "benchmarks.measuring.map_engine", str(blocks), str(changes)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        addresses = process.stdout.readline().split()
        assert process.stdout.readline() == "ready\n", "the engine ended before its pool was filled"
        tell(f"an engine of {blocks:,} blocks is ready")
        yield ",".join(addresses)
    finally:
        process.stdin.close()
        process.wait(30)


@contextmanager
def serving(address: str) -> Iterator[tuple[str, psutil.Process]]:
    """The page's address and the server's process, once it has joined the engine."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable, "-m", "kvxray_backend.cli", "serve", "--port", "0", "--source", f"engine={address}",
        ]  # fmt: skip
        told = Path(folder) / "told"
        with told.open("w") as errors:
            process = subprocess.Popen(command, env=os.environ | {"KVXRAY_DATA_DIR": folder}, stderr=errors)
        try:
            url = until(lambda: re.search(r"open (http://\S+?)/? ", told.read_text()), "the server does not start")[1]
            until(lambda: is_joined(url), "the server does not join the engine")
            yield url, psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(60)
            sys.stderr.write(told.read_text())


def is_joined(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/api/state", timeout=START_S):
            return True
    except (urllib.error.URLError, ConnectionError):
        return False


def until(look: Callable[[], T | None], otherwise: str) -> T:
    """What `look` finds, looked for again and again; fails with a sentence when it takes too long."""
    deadline = time.monotonic() + START_S
    while not (found := look()):
        if time.monotonic() > deadline:
            raise SystemExit(otherwise)
        time.sleep(0.1)
    return found


def tell(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
