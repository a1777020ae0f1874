"""How long from the command to the first painted map, and how much memory the whole demo takes, with both models.

The browser is started beforehand, the model fetched beforehand; the clock runs from the start of `kvxray demo` to the
first frame in which the map shows blocks that the engine holds. Memory is the resident set of the demo and all its
child processes, the browser not counted, after a minute of running with the page open.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import psutil
from playwright.sync_api import Browser, Error, sync_playwright

CHROMIUM = "/usr/bin/chromium"
CHROMIUM_FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
SHOWS_HELD_BLOCKS = """() => {
    const counts = window.__kvxray?.counts();
    return Boolean(counts) && counts.active + counts.shared > 0;
}"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="kvxray bench start", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output")
    parser.add_argument("--runs", type=int, default=3, help="runs of each model; medians are reported")
    parser.add_argument("--settle", type=float, default=60.0, help="seconds from the first map to the memory reading")
    parser.add_argument("--models", nargs="+", default=["tiny", "smollm2"], choices=["tiny", "smollm2"])
    options = parser.parse_args()
    result: dict[str, Any] = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
        for model in options.models:
            runs = [measure(browser, model, options.settle if run == 0 else 0) for run in range(options.runs)]
            times = [seconds for seconds, _ in runs]
            result[f"first_map_{model}_s"] = round(statistics.median(times), 2)
            result[f"first_map_{model}_runs_s"] = [round(seconds, 2) for seconds in times]
            result[f"demo_rss_mb_{model}"] = runs[0][1]
        browser.close()
    print(json.dumps(result) if options.json else "\n".join(f"{name}: {value}" for name, value in result.items()))
    return 0


def measure(browser: Browser, model: str, settle_s: float) -> tuple[float, int | None]:
    """Seconds to the first map, and megabytes after `settle_s` (None when 0)."""
    page_port, events, replay, api = free_ports(4)
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable, "-m", "kvxray_backend.cli", "demo", "--model", model, "--port", str(page_port),
            "--events-port", str(events), "--replay-port", str(replay), "--api-port", str(api),
        ]  # fmt: skip
        begun = time.perf_counter()
        demo = subprocess.Popen(command, env=os.environ | {"KVXRAY_DATA_DIR": folder})
        try:
            seconds = wait_for_map(browser, f"http://127.0.0.1:{page_port}", begun, settle_s)
            megabytes = resident_mb(demo.pid) if settle_s else None
        finally:
            demo.terminate()
            demo.wait(30)
    told = f", {megabytes} MB after {settle_s:.0f} s" if megabytes else ""
    print(f"{model}: first map after {seconds:.2f} s{told}", file=sys.stderr)
    return seconds, megabytes


def wait_for_map(browser: Browser, url: str, begun: float, settle_s: float) -> float:
    page = browser.new_page(viewport={"width": 1600, "height": 1000})
    try:
        while True:
            try:
                page.goto(url, wait_until="commit")
                break
            except Error:
                if time.perf_counter() - begun > 120:
                    raise
                time.sleep(0.05)
        page.wait_for_function(SHOWS_HELD_BLOCKS, timeout=120_000, polling="raf")
        seconds = time.perf_counter() - begun
        page.wait_for_timeout(settle_s * 1000)
        return seconds
    finally:
        page.close()


def resident_mb(pid: int) -> int:
    parent = psutil.Process(pid)
    total = sum(process.memory_info().rss for process in [parent, *parent.children(recursive=True)])
    return round(total / 1e6)


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


if __name__ == "__main__":
    sys.exit(main())
