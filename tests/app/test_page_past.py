"""The past in a real browser, on a backend that does what the test says: what is asked, and what never."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kvxray_app.components.live_component import Shown
from playwright.sync_api import Page

from tests.app.scripted_backend import ScriptedBackend

pytestmark = pytest.mark.browser

Mount = Callable[..., None]
ACTIVE = 4


def told(backend: ScriptedBackend, at: str) -> dict[str, Any]:
    """A summary of the past."""
    summary = backend.summary()
    summary["state"] |= {"at": at, "seq": at}
    summary["source"] |= {"state": "past"}
    return summary


def wait_for_past(page: Page, at: str) -> None:
    page.wait_for_function("at => __kvxray.status() === 'past' && __kvxray.at() === at && __kvxray.counts()", arg=at)


def go(page: Page, at: str | None) -> None:
    page.evaluate(
        """async at => {
          const { momentFor } = await import("/assets/kvxray/moment.js");
          at === null ? momentFor("demo").goLive() : momentFor("demo").go(at);
        }""",
        at,
    )


def test_source_without_an_engine_opens_at_its_last_moment_and_never_asks_for_the_present(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    backend.set_block(3, ACTIVE, 1, 16)
    backend.answers["summary"] = told(backend, "1.100")
    mount("block_map", wait=False, home="1.100")
    mount("health_line", wait=False, home="1.100")
    wait_for_past(page, "1.100")
    assert page.evaluate("__kvxray.counts()")["active"] == 1
    go(page, None)
    page.wait_for_timeout(300)
    assert page.evaluate("__kvxray.at()") == "1.100"
    assert backend.num_viewers == page.evaluate("__kvxray.sockets()") == 0


def test_the_socket_closes_when_the_past_begins_and_opens_again(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    mount("block_map")
    mount("health_line")
    backend.answers["summary"] = told(backend, "1.40")
    go(page, "1.40")
    wait_for_past(page, "1.40")
    page.wait_for_function("__kvxray.sockets() === 0")
    page.wait_for_function("inside('health_line', '.phase b').textContent === 'Past'")
    assert not page.evaluate("inside('health_line', '.past-frame').hidden")
    page.wait_for_function("location.search === '?at=1.40'")
    go(page, None)
    page.wait_for_function("__kvxray.status() === 'live' && __kvxray.sockets() === 1")
    page.wait_for_function("location.search === ''")
    assert page.evaluate("inside('health_line', '.past-frame').hidden")


def test_refused_moment_shows_the_sentence_and_no_picture(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    mount("block_map")
    go(page, "1.99")  # the scripted backend knows no summary
    note = "inside('block_map', '.stage-note')"
    page.wait_for_function(f"!{note}.hidden && {note}.textContent.includes('There is no such thing.')")
    assert page.evaluate("__kvxray.counts()") is None
    backend.answers["summary"] = told(backend, "1.50")
    go(page, "1.50")
    wait_for_past(page, "1.50")
    page.wait_for_function(f"{note}.hidden")


def test_a_fault_of_the_server_is_no_refusal_of_a_moment(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    mount("block_map")
    backend.answers["summary"] = told(backend, "1.50")
    page.route("**/api/summary?*", lambda route: route.fulfill(status=502, body="Bad Gateway"))
    go(page, "1.50")
    note = "inside('block_map', '.stage-note')"
    page.wait_for_function(f"!{note}.hidden && {note}.textContent.includes('The backend answered 502.')")
    page.unroute("**/api/summary?*")
    wait_for_past(page, "1.50")
    page.wait_for_function(f"{note}.hidden")


def test_text_is_not_asked_for_in_the_past(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    row = {
        "request_id": "r", "ordinal": 1, "status": "running", "arrived_at": "2026-01-01T00:00:00.000Z",
        "ended_at": None, "prompt_tokens": 9, "output_tokens": 1, "hit_tokens": 0, "blocks": 1, "shared_blocks": 0,
        "leaked_blocks": 0, "preemptions": 0, "ttft_s": None,
    }  # fmt: skip
    backend.requests = [row]
    backend.answers["summary"] = told(backend, "1.40")
    backend.answers["requests/r"] = {**row, "block_table": [3]}
    mount("block_map")
    go(page, "1.40")
    wait_for_past(page, "1.40")
    mount("requests_table", wait=False)
    page.wait_for_function("inside('requests_table', 'tbody tr')")
    page.evaluate("inside('requests_table', 'tbody tr').click()")
    page.wait_for_function("!inside('block_map', '.lit').hidden")
    page.wait_for_timeout(700)
    assert page.evaluate("inside('requests_table', '.generated').hidden")
    assert "requests/r" in backend.asked
    assert "requests/r/text" not in backend.asked


@pytest.mark.parametrize(
    ("zoomed", "shown"),
    [
        ("window.zoom(0.5, 50_000)", [25_000, 75_000]),
        ("window.zoom(0.5, 0)", [0, 50_000]),
        ("window.zoom(0.001, 50_000)", [49_000, 51_000]),
        ("window.zoom(0.5, 50_000); window.pan(90_000)", [50_000, 100_000]),
        ("window.zoom(0.1, 5_000); window.follow(60_000)", [58_000, 68_000]),
        ("window.zoom(0.5, 50_000); window.zoom(8, 50_000)", [0, 100_000]),
        ("window.setWhole(0, 120_000)", [0, 120_000]),
    ],
)
def test_what_the_timeline_shows(page: Page, zoomed: str, shown: list[int]) -> None:
    found = page.evaluate(
        f"""async () => {{
          const {{ TimeWindow }} = await import("/assets/kvxray/time_window.js");
          const window = new TimeWindow();
          window.width = 1000;
          window.setWhole(0, 100_000);
          {zoomed};
          return [window.from, window.to];
        }}"""
    )
    assert found == pytest.approx(shown)


def test_a_mark_says_what_was_so_at_its_moment(page: Page) -> None:
    leak = {"kind": "leak", "time": "2026-01-01T00:00:10.000Z", "sentence": "Leak: r, aborted 23 s ago, holds 9."}
    gap = {"kind": "gap", "time": "2026-01-01T00:00:20.000Z", "sentence": "1 message is missing.", "mark": ""}
    words = page.evaluate(
        """async findings => {
          const { TimeData } = await import("/assets/kvxray/time_data.js");
          const data = new TimeData({ source: "demo" }, null, () => {});
          data.known.findings = findings;
          return data.marks().map((mark) => mark.words);
        }""",
        [leak | {"mark": "Leak: r, aborted, still holds blocks."}, gap],
    )
    assert words == ["Leak: r, aborted, still holds blocks.", "1 message is missing."]


def test_moment_on_its_way_is_not_called_by_the_event_still_shown(page: Page) -> None:
    written = page.evaluate(
        """async () => {
          const { momentWords } = await import("/assets/kvxray/moment_words.js");
          const summary = { state: { time: "2026-01-01T00:00:10.000Z" } };
          const said = (at, asked, shown) =>
            momentWords({ isPast: true, moment: { at, asked }, past: { shown }, summary }).replace(/.*, /, "");
          const ms = Date.parse("2026-01-01T00:00:40.000Z");
          return [said("1.7", null, "1.7"), said("1.7", ms, "1.7"), said("2026-01-01T00:00:40.000Z", ms, "1.7"),
            said("1.9", null, "1.7"), said("yesterday", null, null)];
        }"""
    )
    assert [text.split("  ·  ")[-1] for text in written[:2]] == ["1.7", "1.7"]
    assert written[0].split("  ·  ")[0].endswith(":00:10.000")
    assert written[1].split("  ·  ")[0].endswith(":00:40.000")
    assert written[2].endswith(":00:40.000")
    assert written[3:] == ["1.9", "yesterday"]


def test_only_a_source_of_the_past_has_a_last_moment() -> None:
    assert Shown.of({"source": "a", "state": "past", "last_seq": "3.9"}) == Shown("a", "3.9")
    assert Shown.of({"source": "a", "state": "connected", "last_seq": "3.9"}) == Shown("a")
