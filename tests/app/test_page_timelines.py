"""The timelines in a real browser: full, empty, loading and broken; what survives an update, and what a brush does."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from kvxray_app.theme import palettes
from playwright.sync_api import Page

from tests.app.course_answers import T0, course, iso
from tests.app.scripted_backend import ScriptedBackend, figure

pytestmark = pytest.mark.browser

Mount = Callable[..., None]
CHARTS = ["occupancy", "hit_rate", "churn", "preemptions", "queue", "fragmentation", "ttft", "itl"]
CARD = "inside('timelines', '[data-chart=churn] .card')"
NOTES = "[...inside('timelines', '.grid').querySelectorAll('.chart-note')].map(n => n.hidden ? '' : n.textContent)"
AT = T0 * 1000


@pytest.fixture
def told(backend: ScriptedBackend) -> ScriptedBackend:
    """100 seconds in the log, and the engine at the second after them."""
    backend.seq = 100
    backend.answers |= {"course": course(100), "findings": {"findings": []}, "bookmarks": {"bookmarks": []}}
    backend.figures = {"allocations_per_s": figure(77.0, "per_second"), "evictions_per_s": figure(1.0, "per_second")}
    return backend


def show(page: Page, mount: Mount, **data: Any) -> None:
    """Mount the charts and wait until those in sight are drawn."""
    page.set_viewport_size({"width": 1000, "height": 1600})
    mount("timelines", wait=False, **data)
    page.wait_for_function("__kvxray.timelines.idle() && __kvxray.timelines.drawn('itl')")


def drawn(page: Page, chart: str) -> list[dict[str, Any]]:
    traces = "__kvxray.timelines.drawn('{}').map(({{name, x, y, line}}) => ({{name, x, y, line}}))"
    found: list[dict[str, Any]] = page.evaluate(traces.format(chart))
    return found


def points(page: Page, chart: str, trace: int = 0) -> list[tuple[float, float | None]]:
    """Seconds since the beginning, and values."""
    one = drawn(page, chart)[trace]
    return [((x - AT) / 1000, y) for x, y in zip(one["x"], one["y"], strict=True)]


def stretch(page: Page) -> tuple[float, float]:
    shown = page.evaluate("__kvxray.timelines.stretch()")
    return shown["from"] - AT, shown["to"] - AT


def place(page: Page, second: float, chart: str = "churn") -> tuple[float, float]:
    spot = page.evaluate("([chart, ms]) => __kvxray.timelines.place(chart, ms)", [chart, AT + second * 1000])
    return spot["x"], spot["y"]


def press(page: Page, label: str) -> None:
    page.evaluate(
        "label => [...inside('timelines', '.bar').querySelectorAll('button')]"
        ".find(node => node.getAttribute('aria-label') === label).click()",
        label,
    )


def past(backend: ScriptedBackend, at: str, second: float) -> None:
    """What the backend says of every moment of the past: this one."""
    summary = backend.summary()
    summary["state"] |= {"at": at, "seq": at, "time": iso(second)}
    summary["source"] |= {"state": "past"}
    backend.answers["summary"] = summary


@pytest.mark.parametrize(("theme", "background"), [("dark", "#0b0e14"), ("light", "#f6f7f9")])
def test_every_chart_is_drawn_in_the_colours_of_the_theme(
    page: Page, told: ScriptedBackend, mount: Mount, theme: str, background: str
) -> None:
    page.evaluate("colour => document.body.style.setProperty('--st-background-color', colour)", background)
    show(page, mount)
    palette = palettes()[theme]
    assert [node["name"] for node in drawn(page, "occupancy")][:2] == ["unknown", "empty"]
    assert drawn(page, "hit_rate")[0]["line"]["color"] == palette["kx-good"]
    for chart in CHARTS:
        assert drawn(page, chart), chart
        assert page.evaluate(f"__kvxray.timelines.layout('{chart}').font.color") == palette["kx-text-faint"]
    assert page.evaluate(NOTES) == [""] * len(CHARTS)
    areas = {trace["name"]: trace["y"][0] for trace in drawn(page, "occupancy")}
    series = told.answers["course"]["series"]
    assert areas["active"] == series["shared"][0] + series["active"][0]  # each sum covers those below it


def test_plotly_is_fetched_by_the_first_chart_and_from_this_server_only(
    page: Page, told: ScriptedBackend, mount: Mount
) -> None:
    fetched: list[str] = []
    page.on("request", lambda request: fetched.append(request.url))
    mount("kpi_tiles")
    assert not any("plotly.min" in url for url in fetched)
    show(page, mount)
    assert [url for url in fetched if "plotly.min" in url] == [f"{told.url}/assets/kvxray/plotly.min.js"]
    assert all(url.startswith((told.url, told.url.replace("http", "ws"))) for url in fetched)


def test_loading_is_said_until_the_answer_is_there(page: Page, told: ScriptedBackend, mount: Mount) -> None:
    held: list[Any] = []
    page.route(re.compile("/api/course"), lambda route: held.append(route))
    mount("timelines", wait=False)
    page.wait_for_function(f"{NOTES}.every(words => words === 'Loading…')")
    page.wait_for_function("__kvxray.timelines.stretch() !== null")
    for _ in range(100):
        if held:
            break
        page.wait_for_timeout(50)
    held[0].continue_()
    page.wait_for_function("__kvxray.timelines.drawn('occupancy') && !inside('timelines', '.chart-note').textContent")


def test_refusal_is_one_sentence_and_the_next_answer_takes_its_place(
    page: Page, told: ScriptedBackend, mount: Mount
) -> None:
    answer = told.answers.pop("course")
    mount("timelines", wait=False)
    said = "inside('timelines', '.note[role=alert]')"
    page.wait_for_function(f"!{said}.hidden && {said}.textContent === 'There is no such thing.'")
    page.wait_for_function(f"{NOTES}.every(words => words === 'Nothing to show.')")
    told.answers["course"] = answer
    press(page, "The last 2 min")
    page.wait_for_function(f"{said}.hidden && __kvxray.timelines.drawn('occupancy')")


def test_a_stretch_without_anything_stored_says_so(page: Page, told: ScriptedBackend, mount: Mount) -> None:
    told.answers["course"] = course(0)
    past(told, "1.50", 50)
    mount("timelines", wait=False, home="1.50")
    page.wait_for_function(f"{NOTES}.every(words => words === 'Nothing is stored of this stretch.')")
    assert page.evaluate("__kvxray.sockets()") == 0
    assert (
        page.evaluate("[...inside('timelines', '.legend').querySelectorAll('b')].map(n => n.textContent)") == ["—"] * 6
    )


def finding(second: float, kind: str, sentence: str) -> dict[str, Any]:
    return {"kind": kind, "severity": "critical", "time": iso(second), "sentence": sentence}


def test_a_brush_chooses_the_stretch_and_takes_the_page_to_its_end(
    page: Page, told: ScriptedBackend, mount: Mount
) -> None:
    told.answers["findings"] = {"findings": [finding(10, "leak", "Early."), finding(50, "leak", "Within.")]}
    past(told, "1.70", 69)
    show(page, mount)
    rows = "[...inside('timelines', '.marks').querySelectorAll('.words')].map(node => node.textContent)"
    assert page.evaluate(rows) == ["Within.", "Early."]
    (begin, y), (end, _) = place(page, 40), place(page, 70)
    page.mouse.move(begin, y)
    page.mouse.down()
    page.mouse.move((begin + end) / 2, y)
    page.mouse.move(end, y)
    page.wait_for_function("!inside('timelines', '[data-chart=itl] .brush').hidden")
    page.mouse.up()
    page.wait_for_function("__kvxray.status() === 'past' && __kvxray.at() === '1.70'")
    chosen = stretch(page)
    assert chosen == pytest.approx((40_000, 70_000), abs=1_500)
    page.wait_for_function("/from=.*to=.*/.test(location.search) && location.search.includes('at=1.70')")
    page.wait_for_function(f"{rows}.length === 1")
    assert page.evaluate(rows) == ["Within."]
    assert "at=1.70" in page.evaluate("inside('timelines', '.bar .link').href")
    page.wait_for_function("!inside('timelines', '[data-chart=itl] .head').hidden")
    press(page, "Go along with the present")
    page.wait_for_function("__kvxray.status() === 'live' && location.search === ''")


def test_no_hole_is_joined_over_and_no_spike_lost(page: Page, told: ScriptedBackend, mount: Mount) -> None:
    flat, spike = [2.0] * 100, [2.0] * 100
    spike[7] = 900.0
    hits: list[float | None] = [0.5] * 20 + [None] * 10 + [0.75] * 70
    series = {"allocations_per_s": flat, "allocations_per_s_max": spike, "used": flat, "used_max": spike}
    answer = course(100, 2, hit_rate=hits, **series)  # type: ignore[arg-type]
    # Epoch 1 ends after 100 seconds, and the engine starts anew 20 seconds later.
    answer["t"] = [second + (20 if row >= 50 else 0) for row, second in enumerate(answer["t"])]
    answer["epoch"] = [1] * 50 + [2] * 50
    told.answers["course"] = answer
    told.answers["findings"] = {"findings": [finding(30, "gap", "12 messages are missing.")]}
    told.figures["hit_rate"] = figure(None, "ratio")
    told.epoch, told.seq = 2, 221
    show(page, mount)
    line = points(page, "hit_rate")
    assert {value for second, value in line if second <= 40} == {0.5, None}
    assert not [value for second, value in line if 42 <= second < 62 and value is not None]
    assert min(value for _, value in line if value is not None) == 0.5
    assert line[-1][1] is None  # nor does the feed's "no data" go on with the line
    assert (16.0, 900.0) in points(page, "churn")
    assert [value for second, value in points(page, "churn") if 100 <= second < 122][1:] == [None]
    most = next(at for at, trace in enumerate(drawn(page, "occupancy")) if trace["name"] == "most in use")
    assert (14.0, 900.0) in points(page, "occupancy", most)
    assert page.evaluate("__kvxray.timelines.layout('churn').yaxis.range[1]") >= 900
    marks = page.evaluate("__kvxray.timelines.layout('churn').shapes.map(({type, x0, x1}) => [type, (x0 + x1) / 2])")
    assert marks == [["rect", AT + 30_000], ["line", AT + 120_000]]


def test_the_feed_goes_on_where_the_log_ends_until_that_tells_more(
    page: Page, told: ScriptedBackend, mount: Mount
) -> None:
    show(page, mount)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/api/course" in request.url else None)
    # The question put every few seconds fails here, so that what the feed told is seen for as long as it takes to look.
    told.answers["course"] = None
    move_on(page, told, 103)
    assert (103.0, 77.0) in points(page, "churn")
    page.wait_for_function("to => __kvxray.timelines.stretch().to === to", arg=AT + 103_000)
    # Latencies come from the log alone: no second definition goes on with their line.
    assert points(page, "itl")[-1][0] == 100.0
    told.answers["course"] = course(104, allocations_per_s=[5.0] * 104)
    page.wait_for_function("!__kvxray.timelines.drawn('churn')[0].y.includes(77)")
    assert [value for second, value in points(page, "churn") if second >= 100] == [5.0] * 5 + [None]
    told.answers["course"] = course(3, begin=103, allocations_per_s=[6.0] * 3)
    move_on(page, told, 106, feed=False)
    page.wait_for_function("__kvxray.timelines.drawn('churn')[0].y.filter(y => y === 6).length === 3")
    assert [value for second, value in points(page, "churn") if second >= 100] == [5.0] * 4 + [6.0] * 3 + [None]
    assert any("from=2026-01-01T00%3A01%3A43.000Z" in url and "points=3" in url for url in asked)


def move_on(page: Page, told: ScriptedBackend, second: int, feed: bool = True) -> None:
    """The engine is at this second; waits until the charts show it, where the feed is all that tells."""
    told.seq = second
    told.send_summary()
    if feed:
        page.wait_for_function("at => __kvxray.timelines.drawn('churn')[0].x.includes(at)", arg=AT + second * 1000)


def test_a_zoom_and_what_is_pointed_at_survive_updates(page: Page, told: ScriptedBackend, mount: Mount) -> None:
    low = course(100)["series"]["allocations_per_s"]
    told.answers["course"] = course(100, allocations_per_s_max=[value + 9 for value in low])
    show(page, mount)
    page.mouse.move(*place(page, 20))
    page.keyboard.down("Control")
    page.mouse.wheel(0, -700)
    page.keyboard.up("Control")
    page.wait_for_function("location.search.includes('from=')")
    zoomed = stretch(page)
    assert zoomed[1] - zoomed[0] < 400_000
    page.wait_for_function("to => __kvxray.timelines.layout('churn').xaxis.range[1] === to", arg=AT + zoomed[1])
    page.mouse.move(*place(page, 30.5))
    page.wait_for_function(f"{CARD}.textContent.includes('{low[30]:.1f} to {low[30] + 9:.1f}')")
    sure = f"{CARD}.textContent.includes('exact · event log, 1 s a point')"
    assert page.evaluate(f"{sure} && {CARD}.textContent.includes('over 10 s')")
    move_on(page, told, 104)
    assert stretch(page) == zoomed
    ranges = page.evaluate("['occupancy', 'itl'].map(name => __kvxray.timelines.layout(name).xaxis.range)")
    assert [[end - AT for end in one] for one in ranges] == [list(zoomed)] * 2
    assert page.evaluate(f"{sure} && !{CARD}.hidden && __kvxray.status()") == "live"
    cursors = "[...inside('timelines', '.grid').querySelectorAll('.cursor')].filter(node => !node.hidden).length"
    assert page.evaluate(cursors) == len(CHARTS)
    page.mouse.move(5, 5)
    page.wait_for_function(f"{CARD}.hidden")
    press(page, "Go along with the present")
    page.wait_for_function("to => __kvxray.timelines.stretch().to === to", arg=AT + 104_000)


def test_missing_messages_make_what_is_near_them_derived(page: Page, told: ScriptedBackend, mount: Mount) -> None:
    gap = {"from_seq": "1.5", "to_seq": "1.9", "time": iso(50), "reason": "not_replayed", "repaired": False}
    told.answers["course"] = course(100) | {"gaps": [gap]}
    show(page, mount)
    for second, words in ((55.5, "derived: messages are missing"), (70.5, "exact"), (40.5, "exact")):
        page.mouse.move(*place(page, second))
        page.wait_for_function(f"words => {CARD}.textContent.includes(words + ' · event log')", arg=words)
    page.mouse.move(*place(page, -180))
    page.wait_for_function(f"{CARD}.textContent.includes('Nothing is told of this time.')")
    assert page.evaluate("inside('timelines', '.marks .words').textContent").endswith("not replayed")


def test_presses_and_keys_take_the_page_to_a_moment_and_escape_lets_go(
    page: Page, told: ScriptedBackend, mount: Mount
) -> None:
    past(told, "1.60", 60)
    show(page, mount)
    x, y = place(page, 40)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 60, y)
    page.wait_for_function("!inside('timelines', '.brush').hidden")
    page.keyboard.press("Escape")
    page.wait_for_function("inside('timelines', '.brush').hidden")
    page.mouse.up()
    before = stretch(page)
    assert page.evaluate("[__kvxray.at(), location.search]") == [None, ""]
    page.mouse.click(*place(page, 60))
    page.wait_for_function("__kvxray.at() === '1.60'")
    assert stretch(page) == before
    past(told, "1.99", 99)
    told.answers["state/delta"] = told.delta([], 60, 99)
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    page.wait_for_function("__kvxray.at() === '1.99'")


def test_a_permalink_opens_its_stretch_and_nothing_is_left_when_the_page_goes(
    page: Page, told: ScriptedBackend, mount: Mount
) -> None:
    page.goto(f"{told.url}?from={iso(20)}&to={iso(80)}")
    page.wait_for_function("window.ready")
    mount("timelines", wait=False)
    page.wait_for_function("__kvxray.timelines.stretch() !== null && __kvxray.sockets() === 1")
    assert stretch(page) == (20_000, 80_000)
    assert page.evaluate("location.search") == "?from=2026-01-01T00%3A00%3A20.000Z&to=2026-01-01T00%3A01%3A20.000Z"
    press(page, "The last 2 min")
    page.wait_for_function("location.search === '?last=120'")
    # What is still to be written must not reach the address of the next page.
    left = "inside('timelines', '.bar').querySelector('[aria-label=\"The last 1 h\"]').click(); unmount('timelines')"
    page.evaluate(left)
    page.wait_for_function("__kvxray.sockets() === 0 && __kvxray.timelines === undefined")
    page.wait_for_timeout(300)
    assert page.evaluate("location.search") == "?last=120"


def test_an_address_that_makes_no_sense_is_left_aside(page: Page) -> None:
    shown = page.evaluate(
        """async () => {
          const { TimelineRange } = await import("/assets/kvxray/timeline_range.js");
          const queries = ["from=x&to=y", "from=2026-01-01&to=2025-01-01", "from=0001-01-01&to=2026-01-01", "last=1",
            "last=-5", "last=9e99", "last=all", "last=120"];
          return queries.map((query) => {
            const range = new TimelineRange(new URLSearchParams(query), 600_000);
            range.now = 1e12;
            range.whole = { from: 0, to: 1e12 };
            return range.stretch().to - range.stretch().from;
          });
        }"""
    )
    assert shown == [600_000] * 6 + [1e12, 120_000]
