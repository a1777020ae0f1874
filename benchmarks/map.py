"""How well the live page keeps up with a large pool, in real Chromium: frames a second, time from an event to its
pixel, how fast viewers join, and what one more viewer costs the server.

A generated engine tells of `--blocks` blocks and `--changes` changes a second, `kvxray serve` follows and stores it,
and a browser without a GPU shows the whole live page. Everything runs on this machine. A frame shows all events since
the one before it: the time to the pixel is taken of five moments spread evenly over them. A pixel counts as shown one
task after the canvas was drawn to. Ten viewers that join at once are sockets and snapshots without a browser, since ten
browsers would measure this machine. The cost of one more viewer is told for such a socket, and for a page in a browser
as well, with its session in Streamlit: viewers come and go in turns, and beside the median of the turns stands their
spread. With `--soak` nothing is timed: the page is watched for so long, and the memory of server and browser is read.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import psutil
from playwright.sync_api import Browser, CDPSession, Page, ViewportSize, sync_playwright

from benchmarks.measuring.feed_viewer import FeedViewer
from benchmarks.measuring.map_rig import START_S, VIEWPORT, engine, opened, serving, tell
from benchmarks.measuring.map_soak import soak
from benchmarks.measuring.viewer_cost import Turns, load, watching
from benchmarks.start import CHROMIUM, CHROMIUM_FLAGS

JOINING = 10
VIEWERS_A_PAGE = 10  # a page in a browser takes more of this machine than a socket
SMALL_VIEWPORT: ViewportSize = {"width": 640, "height": 480}
MOMENTS = (np.arange(5) + 0.5) / 5

WATCH = """() => {
  window.__paints = [];
  __kvxray.map.onPaint((changedAt) => setTimeout(() => __paints.push([Date.now() / 1000, changedAt])));
}"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="kvxray bench map", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output")
    parser.add_argument("--blocks", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=20_000, help="changes of blocks a second")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long each thing is watched")
    parser.add_argument("--settle", type=float, default=10.0, help="seconds between two things")
    parser.add_argument("--viewers", type=int, default=40, help="how many come and go to tell what one of them costs")
    parser.add_argument("--turns", type=int, default=5, help="how often they do")
    parser.add_argument("--soak", type=float, metavar="MINUTES", help="only watch, so long, and tell how memory grows")
    options = parser.parse_args()
    with (
        engine(options.blocks, options.changes) as address,
        serving(address) as (url, server),
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=CHROMIUM_FLAGS)
        result: dict[str, Any] = {"blocks": options.blocks}
        if options.soak:
            result |= soak(browser, opened(browser, url, options.blocks), server, options.soak)
        else:
            result |= measure(browser, url, server, options) | costs(browser, url, server, options)
        browser.close()
    print(json.dumps(result) if options.json else "\n".join(f"{name}: {value}" for name, value in result.items()))
    return 0


def measure(browser: Browser, url: str, server: psutil.Process, options: argparse.Namespace) -> dict[str, Any]:
    """What a browser shows, alone and beside the Timelines; how others join, and what one of them costs."""
    page = opened(browser, url, options.blocks)
    page.wait_for_timeout(1000 * options.settle)
    shown = watched(page, options.seconds)
    tell(f"{shown['frames_per_s']} frames/s, p95 {shown['event_to_pixel_p95_ms']} ms from event to pixel")
    beside = watched_beside_timelines(browser, page, url, options)
    tell(f"p95 {beside['event_to_pixel_with_timelines_p95_ms']} ms with the Timelines in another window")
    alone = load(server, options.seconds)
    begun = time.perf_counter()
    with watching(url, JOINING) as viewers:
        joined = time.perf_counter() - begun
        tell(f"{JOINING} viewers joined in {joined:.2f} s")
        changes_per_s = changes_told(viewers[0], options)
    return {
        "changes_per_s": round(changes_per_s),
        **shown,
        **beside,
        "join_10_viewers_s": round(joined, 2),
        "server_core_percent": round(alone.core_percent, 1),
        "server_mb": round(alone.megabytes),
    }


def costs(browser: Browser, url: str, server: psutil.Process, options: argparse.Namespace) -> dict[str, float]:
    """Of one more socket of the live feed, and of one more whole page, which has a session in Streamlit as well."""
    turns = Turns(options.turns, options.seconds / 2, options.settle / 2)
    viewer = turns.cost(server, options.viewers, lambda: watching(url, options.viewers))
    tell(f"{viewer.core_percent:.3f} % of a core a viewer (± {viewer.spread:.3f})")
    pages = max(1, options.viewers // VIEWERS_A_PAGE)
    page = turns.cost(server, pages, lambda: pages_open(browser, url, options.blocks, pages))
    tell(f"{page.core_percent:.3f} % of a core a page (± {page.spread:.3f})")
    return viewer.figures("viewer") | page.figures("page")


def watched_beside_timelines(
    browser: Browser, page: Page, url: str, options: argparse.Namespace
) -> dict[str, float | None]:
    """The live page again, while the Timelines are drawn in a second window: a tab behind it would draw nothing."""
    timelines = browser.new_page(viewport=VIEWPORT)
    timelines.goto(f"{url}/timelines", wait_until="commit")
    timelines.wait_for_function("window.__kvxray?.timelines?.idle()", timeout=1000 * START_S)
    timelines.wait_for_timeout(1000 * options.settle)
    inspected = timelines.context.new_cdp_session(timelines)
    inspected.send("Performance.enable", {"timeDomain": "threadTicks"})
    before, begun = main_thread_seconds(inspected), time.perf_counter()
    shown = watched(page, options.seconds)
    busy, lasted = main_thread_seconds(inspected) - before, time.perf_counter() - begun
    timelines.close()
    return {
        "frames_per_s_with_timelines": shown["frames_per_s"],
        "event_to_pixel_with_timelines_p50_ms": shown["event_to_pixel_p50_ms"],
        "event_to_pixel_with_timelines_p95_ms": shown["event_to_pixel_p95_ms"],
        "timelines_main_thread_percent": round(100 * busy / lasted, 1),
    }


def main_thread_seconds(inspected: CDPSession) -> float:
    """CPU time of a page's main thread in its tasks so far."""
    told = inspected.send("Performance.getMetrics")["metrics"]
    return float(next(one["value"] for one in told if one["name"] == "TaskDuration"))


def watched(page: Page, seconds: float) -> dict[str, float | None]:
    """Frames a second, how old what they show is (None when nothing moved), and what it takes of a core."""
    page.evaluate(WATCH)
    before, begun = browser_seconds(), time.perf_counter()
    page.wait_for_timeout(1000 * seconds)
    busy, lasted = browser_seconds() - before, time.perf_counter() - begun
    paints = np.array(page.evaluate("__paints")).reshape(-1, 2)
    shown, changed = paints[paints[:, 1] > 0].T  # the others were painted for no event
    spans = np.diff(changed)
    lags = 1000 * (shown[1:, None] - (changed[:-1, None] + spans[:, None] * MOMENTS))[spans > 0]
    p50, p95 = np.percentile(lags, [50, 95]).round(1).tolist() if len(lags) else (None, None)
    return {
        "frames_per_s": round(float(np.count_nonzero(spans > 0) / lasted), 1),
        "event_to_pixel_p50_ms": p50,
        "event_to_pixel_p95_ms": p95,
        "browser_core_percent": round(100 * busy / lasted, 1),
    }


def browser_seconds() -> float:
    """CPU time of all the browser's processes so far."""
    running = [one for one in psutil.Process().children(recursive=True) if "chrom" in one.name()]
    return sum(times.user + times.system for times in (one.cpu_times() for one in running))


def changes_told(viewer: FeedViewer, options: argparse.Namespace) -> float:
    """Changes a second that come to a viewer."""
    time.sleep(options.settle)
    before, since = viewer.changes, time.perf_counter()
    time.sleep(options.seconds)
    return (viewer.changes - before) / (time.perf_counter() - since)


@contextmanager
def pages_open(browser: Browser, url: str, blocks: int, count: int) -> Iterator[None]:
    """So many live pages that nobody looks at, small ones: what they draw is not measured."""
    pages = [opened(browser, url, blocks, SMALL_VIEWPORT) for _ in range(count)]
    yield
    for page in pages:
        page.close()


if __name__ == "__main__":
    sys.exit(main())
