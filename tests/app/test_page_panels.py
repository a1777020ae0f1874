"""Tiles, requests, events and findings in a real browser: what they say of the feed, and what they never say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kvxray_app import formats
from kvxray_app.event_words import KINDS, event_words
from playwright.sync_api import Page

from tests.app.scripted_backend import ScriptedBackend, figure

pytestmark = pytest.mark.browser

Mount = Callable[..., None]
ACTIVE = 4


def tile(page: Page, key: str, part: str) -> str:
    text: str = page.evaluate("([k, p]) => inside('kpi_tiles', `[data-key=${k}] ${p}`).textContent", [key, part])
    return text


def wait_for_tile(page: Page, key: str, part: str, text: str) -> None:
    page.wait_for_function(
        "([k, p, t]) => inside('kpi_tiles', `[data-key=${k}] ${p}`).textContent === t", arg=[key, part, text]
    )


def test_figures_are_written_with_their_units(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    backend.set_block(1, 4, 1, 16)
    backend.set_block(2, 5, 2, 16)
    backend.figures = {
        "used": figure(0.25, "ratio"),
        "leaked": figure(2, "blocks"),
        "ttft_p50_s": figure(0.358, "seconds", "derived"),
        "evictions_per_s": figure(12.34, "per_second"),
        "allocations_per_s": figure(20, "per_second"),
    }
    mount("kpi_tiles")
    wait_for_tile(page, "used", ".value", "25.0%")
    assert tile(page, "used", ".second") == "2 of 8 blocks"
    assert (tile(page, "leaked", ".value"), tile(page, "leaked", ".unit")) == ("2", "blocks")
    assert (tile(page, "ttft_p50_s", ".value"), tile(page, "ttft_p50_s", ".unit")) == ("358", "ms")
    assert tile(page, "evictions_per_s", ".second") == "20.0 allocated/s"


def test_figure_without_value_is_a_dash_with_a_reason_never_zero(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    backend.figures = {"hit_rate": figure(None, "ratio"), "running": figure(None, "requests", "not_observable")}
    mount("kpi_tiles")
    for key in ("hit_rate", "running", "used"):
        assert tile(page, key, ".value") == formats.NO_DATA
    page.evaluate("inside('kpi_tiles', '[data-key=hit_rate]').focus()")
    assert "No data: No prompt was looked up" in page.evaluate("inside('kpi_tiles', '.kx-tip').textContent")
    page.evaluate("inside('kpi_tiles', '[data-key=running]').focus()")
    assert "Not observable" in page.evaluate("inside('kpi_tiles', '.kx-tip').textContent")


def test_a_figure_of_an_engine_just_joined_says_since_when_it_is_watched(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    backend.figures = {"hit_rate": figure(None, "ratio"), "evictions_per_s": figure(None, "per_second")}
    backend.engine_time, backend.watched_since = "2026-01-01T00:01:00.000Z", "2026-01-01T00:00:48.000Z"
    mount("kpi_tiles")
    since = page.evaluate("new Date('2026-01-01T00:00:48Z').toTimeString().slice(0, 8)")
    assert tile(page, "hit_rate", ".second") == f"no prompt since {since}"
    assert tile(page, "evictions_per_s", ".second") == "no events in 10 s"
    page.evaluate("inside('kpi_tiles', '[data-key=hit_rate]').focus()")
    assert f"It has been watched since {since} only." in page.evaluate("inside('kpi_tiles', '.kx-tip').textContent")
    backend.engine_time = "2026-01-01T00:01:48.000Z"
    backend.send_summary()
    page.wait_for_function("inside('kpi_tiles', '[data-key=hit_rate] .second').textContent === 'no prompt in 60 s'")


def test_blocks_tokens_and_bytes_are_one_switch(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    backend.set_block(1, 4, 1, 16)
    backend.figures = {"used": figure(0.125, "ratio"), "leaked": figure(1, "blocks")}
    mount("kpi_tiles")
    mount("health_line")
    page.evaluate("inside('health_line', '[data-unit=tokens]').click()")
    wait_for_tile(page, "used", ".second", "16 of 128 token slots")
    page.evaluate("inside('health_line', '[data-unit=bytes]').click()")
    wait_for_tile(page, "leaked", ".value", "2.00 KiB")
    page.evaluate("inside('health_line', '[data-unit=blocks]').click()")
    wait_for_tile(page, "leaked", ".value", "1")


def descriptor(kv_cache_dtype: str, bytes_per_block: int, bytes_per_block_fp16: int) -> dict[str, Any]:
    """Of 640 blocks to use, as SmolLM2's engine tells it."""
    return {
        "num_blocks": 641, "null_block": 0, "block_size": 16, "model": "SmolLM2", "kv_cache_dtype": kv_cache_dtype,
        "bytes_per_block": bytes_per_block, "bytes_per_block_fp16": bytes_per_block_fp16,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        (descriptor("int4", 103_680, 368_640), "int4: 3.6× the blocks of fp16"),
        (descriptor("float32", 737_280, 368_640), "fp32: 0.5× the blocks of fp16"),
        (descriptor("bfloat16", 368_640, 368_640), "bf16"),
        (descriptor("int4", 0, 0), "int4"),
        (descriptor("none", 0, 0), ""),
        (None, ""),
    ],
)
def test_capacity_says_what_the_dtype_of_the_cache_gains(
    page: Page, backend: ScriptedBackend, mount: Mount, told: dict[str, Any] | None, shown: str
) -> None:
    backend.descriptor = told
    mount("kpi_tiles")
    page.wait_for_function("text => inside('kpi_tiles', '.capacity').textContent === text", arg=shown)


def test_capacity_in_full_is_in_the_tooltips(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    backend.descriptor = descriptor("int4", 103_680, 368_640)
    mount("kpi_tiles")
    mount("health_line")
    page.wait_for_function("inside('kpi_tiles', '.capacity').textContent")
    lines = [
        "Capacity: 640 blocks = 10,240 tokens = 63.3 MiB.",
        "A block of 16 tokens takes 101.3 KiB in int4, scales and all; in fp16 it would take 360.0 KiB.",
        "For the same bytes: 3.56 times the blocks of fp16.",
    ]
    for component, node in (("kpi_tiles", "[data-key=used]"), ("health_line", ".muted")):
        page.evaluate("([c, n]) => inside(c, n).focus()", [component, node])
        told = page.evaluate("c => [...inside(c, '.kx-tip').children].map(line => line.textContent)", component)
        assert [line for line in told if line in lines] == lines
    page.wait_for_function("inside('health_line', '.muted').textContent.endsWith('640 blocks of 16 tokens  ·  int4')")


def test_spoiled_figure_names_what_spoils_it(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    backend.findings = [finding("f1", sentence="12 messages never arrived.")]
    backend.figures = {"used": {**figure(0.5, "ratio"), "taints": ["f1"]}}
    mount("kpi_tiles")
    wait_for_tile(page, "used", ".value", "50.0%")
    assert not page.evaluate("inside('kpi_tiles', '[data-key=used] .taint').hidden")
    page.evaluate("inside('kpi_tiles', '[data-key=used]').focus()")
    assert "Spoiled by: 12 messages never arrived." in page.evaluate("inside('kpi_tiles', '.kx-tip').textContent")


def test_numbers_are_written_alike_in_python_and_in_the_browser(page: Page) -> None:
    values = [
        None,
        0,
        0.0000042,
        0.0043,
        0.5,
        0.82,
        0.9996,
        1,
        1.239,
        12.34,
        59.94,
        99.9,
        125.6,
        3725,
        16_384,
        5_000_000_000,
    ]
    written = page.evaluate(
        """async values => {
          const format = await import("/assets/kvxray/format.js");
          return Object.fromEntries(["count", "percent", "rate", "seconds", "size"].map(
            name => [name, values.map(value => format[name](value))]));
        }""",
        values,
    )
    for name, texts in written.items():
        assert texts == [getattr(formats, name)(value) for value in values], name
    told = dict(zip(values, written["percent"], strict=True))
    assert (told[0], told[0.0000042], told[0.9996], told[1]) == ("0.0%", "<0.1%", ">99.9%", "100.0%")


def test_selected_request_shows_its_text_and_lights_its_blocks(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    backend.requests = [request_row(1, "agent-1/turn-2", "running", blocks=2)]
    backend.answers["requests/agent-1/turn-2"] = {**backend.requests[0], "block_table": [3, 4]}
    backend.answers["requests/agent-1/turn-2/text"] = text_answer(" Once upon a time", finished=False)
    mount("block_map")
    mount("requests_table")
    page.wait_for_function("inside('requests_table', 'tbody tr')")
    page.evaluate("inside('requests_table', 'tbody tr').click()")
    page.wait_for_function("inside('requests_table', '.text').textContent === 'Once upon a time'")
    page.wait_for_function("inside('block_map', '.lit').textContent.startsWith('agent-1/turn-2 · 2 blocks')")
    assert page.evaluate("location.search") == "?request=agent-1%2Fturn-2"

    backend.answers["requests/agent-1/turn-2/text"] = text_answer(" Once upon a time.", finished=True)
    page.wait_for_function("inside('requests_table', '.text').textContent === 'Once upon a time.'")
    asked = len(backend.asked)
    backend.send_summary()
    page.wait_for_timeout(700)  # longer than the pause between two looks: a finished text is not asked for again
    assert len(backend.asked) == asked


def test_text_panel_says_how_the_request_ended_and_can_be_closed(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    row = request_row(1, "agent-1/turn-2", "running", blocks=2)
    backend.requests = [row]
    backend.answers["requests/agent-1/turn-2/text"] = text_answer("Once", finished=True)
    mount("requests_table")
    page.wait_for_function("inside('requests_table', 'tbody tr')")
    page.evaluate("inside('requests_table', 'tbody tr').click()")
    head = "inside('requests_table', '.generated-head').textContent"
    backend.requests = [{**row, "status": "aborted"}]
    backend.send_summary()
    page.wait_for_function(f"{head}.includes('aborted')")
    backend.requests = []
    backend.send_summary()
    page.wait_for_function("!inside('requests_table', 'tbody tr')")
    assert "aborted" in page.evaluate(head)
    page.evaluate("inside('requests_table', '.generated-head button').click()")
    page.wait_for_function("inside('requests_table', '.generated').hidden && location.search === ''")


def test_age_of_a_request_ends_with_it(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    ages = "[...inside('requests_table', 'tbody').children].map(row => row.lastChild.textContent).join()"
    backend.requests = [request_row(1, "a", "finished")]
    mount("requests_table")
    page.wait_for_function(f"({ages}) === '1 min 12 s'")
    page.wait_for_timeout(1100)
    assert page.evaluate(ages) == "1 min 12 s"


def test_age_of_a_request_is_told_by_the_engines_clock_and_not_by_the_readers(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    ages = "[...inside('requests_table', 'tbody').children].map(row => row.lastChild.textContent).join(' ')"
    backend.requests = [request_row(1, "a", "running")]
    backend.engine_time = "2026-01-01T00:00:07.500Z"
    mount("requests_table")
    page.wait_for_function(f"({ages}) === '7 s'")
    # Set back by an hour: how old the one is that came before, nobody knows.
    backend.engine_time = "2025-12-31T23:00:07.500Z"
    backend.requests += [{**request_row(2, "b", "running"), "arrived_at": "2025-12-31T23:00:05.000Z"}]
    backend.send_summary()
    page.wait_for_function(f"({ages}) === '— 2 s'")


def test_blocks_of_requests_and_legend_follow_the_units(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    backend.set_block(1, ACTIVE, 1, 16)
    backend.requests = [request_row(1, "a", "running", blocks=2)]
    for name in ("block_map", "requests_table", "health_line"):
        mount(name)
    page.evaluate("inside('health_line', '[data-unit=tokens]').click()")
    page.wait_for_function("inside('requests_table', 'thead').textContent.includes('Token slots')")
    page.wait_for_function("inside('requests_table', 'tbody tr').children[5].textContent === '32'")
    page.wait_for_function("inside('block_map', '.legend').textContent.includes('active16')")
    page.evaluate("inside('health_line', '[data-unit=blocks]').click()")


def test_names_from_outside_are_never_markup(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    evil = "<img src=x onerror=window.pwned=1>"
    backend.requests = [request_row(1, evil, "running")]
    backend.findings = [finding("f1", sentence=evil)]
    backend.events = [event(5, "RequestArrived", request_id=evil)]
    for name in ("requests_table", "findings_banner", "event_tail"):
        mount(name)
        page.wait_for_function("([n, t]) => inside(n, '.panel, .findings').textContent.includes(t)", arg=[name, evil])
        assert page.evaluate("name => inside(name, 'img')", name) is None
    assert page.evaluate("window.pwned") is None


def test_finding_is_a_sentence_that_shows_its_blocks(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    mount("block_map")
    mount("findings_banner")
    assert page.evaluate("inside('findings_banner', '.findings').hidden")
    backend.findings = [finding(f"f{at}", sentence=f"Request {at} still holds 2 blocks.") for at in range(4)]
    backend.send_summary()
    page.wait_for_function("inside('findings_banner', '.findings').textContent.includes('still holds 2 blocks.')")
    assert "Show 3 more findings" in page.evaluate("inside('findings_banner', '.more').textContent")
    # It is of another day than today.
    day = page.evaluate("new Date('2026-01-01T00:00:00Z').toLocaleDateString('en-GB', {dateStyle: 'medium'})")
    assert f"since {day}, " in page.evaluate("inside('findings_banner', '.findings').textContent")
    page.set_viewport_size({"width": 1000, "height": 1000})  # room for one more
    backend.send_summary()
    page.wait_for_function("inside('findings_banner', '.more').textContent === 'Show 2 more findings'")
    page.evaluate("inside('findings_banner', 'li button').click()")
    page.wait_for_function("inside('block_map', '.lit').textContent.startsWith('leak · 2 blocks')")
    backend.findings = []
    backend.send_summary()
    page.wait_for_function("inside('findings_banner', '.findings').hidden")


def test_an_id_that_turns_the_direction_of_text_turns_nothing_beside_it(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    turned = "\u202eagent"
    sentence = f"Leak: request {turned} holds 2 blocks."
    backend.findings = [{**finding("f1", sentence), "subjects": {"blocks": [3, 4], "requests": [turned]}}]
    mount("findings_banner")
    page.wait_for_function("inside('findings_banner', '.sentence bdi')")
    # Where "Leak" and "blocks" are painted: the one before, the other after the id.
    places = page.evaluate(
        """text => {
        const walker = document.createTreeWalker(inside('findings_banner', '.sentence'), NodeFilter.SHOW_TEXT);
        const left = {};
        while (walker.nextNode()) for (const word of ["Leak", "agent", "blocks"]) {
            const at = walker.currentNode.data.indexOf(word);
            if (at < 0) continue;
            const range = document.createRange();
            range.setStart(walker.currentNode, at);
            range.setEnd(walker.currentNode, at + word.length);
            left[word] = range.getBoundingClientRect().left;
        }
        return [left, inside('findings_banner', '.sentence').firstChild.textContent === text];
    }""",
        sentence,
    )
    left, is_whole = places
    assert left["Leak"] < left["agent"] < left["blocks"]
    assert is_whole
    mount("block_map")
    page.evaluate("inside('findings_banner', 'button.quiet-button').click()")
    page.wait_for_function("inside('block_map', '.lit').textContent.startsWith('leak ·')")


def test_of_thousands_of_findings_the_true_number_is_told(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    mount("findings_banner")
    backend.findings = [finding(f"f{at}", sentence=f"Request {at} still holds 2 blocks.") for at in range(100)]
    backend.num_findings = 5000
    backend.send_summary()
    page.wait_for_function("inside('findings_banner', '.more').textContent === 'Show 4,999 more findings'")
    assert page.evaluate("inside('findings_banner', '.untold').hidden")
    page.evaluate("inside('findings_banner', '.more').click()")
    page.wait_for_function("inside('findings_banner', '.untold').hidden === false")
    assert page.evaluate("inside('findings_banner', 'ul').children.length") == 100
    words = page.evaluate("inside('findings_banner', '.untold').textContent")
    assert words == "4,900 more are open and not listed here."


def test_a_long_id_leaves_the_other_columns_in_sight(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    backend.requests = [request_row(2, "x" * 500, "running"), request_row(1, "\u202etfel-ot-thgir", "running")]
    mount("requests_table")
    page.wait_for_function("inside('requests_table', 'tbody').children.length === 2")
    fits = """() => {
      const list = inside('requests_table', '.list');
      return [list.scrollWidth <= list.clientWidth, inside('requests_table', 'tbody .id').title.length];
    }"""
    assert page.evaluate(fits) == [True, 500]


def test_colours_with_a_meaning_stay_where_the_reader_forces_colours(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    page.emulate_media(forced_colors="active")
    mount("block_map")
    swatch = "getComputedStyle(inside('block_map', '.legend .swatch[data-state=active]'))"
    chosen = "getComputedStyle(inside('block_map', '.modes [aria-checked=true]'))"
    others = "getComputedStyle(inside('block_map', '.modes [aria-checked=false]'))"
    assert page.evaluate(f"{swatch}.backgroundColor") != page.evaluate(f"{others}.backgroundColor")
    assert page.evaluate(f"{swatch}.forcedColorAdjust") == "none"
    assert page.evaluate(f"{chosen}.backgroundColor") != page.evaluate(f"{others}.backgroundColor")


def test_silence_of_the_engine_comes_before_all_other_findings_and_says_what_to_do(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    silence = finding("s", sentence="Nothing is heard from the engine.") | {"kind": "stale", "severity": "warning"}
    backend.findings = [finding("f1", "A leak."), finding("f2", "A leak."), silence]
    mount("findings_banner")
    words = "Nothing is heard from the engine. Start it again"
    page.wait_for_function("words => inside('findings_banner', 'li').innerText.includes(words)", arg=words)


def test_events_are_listed_newest_first_and_what_was_left_out_is_said(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    backend.events = [event(12, "BlockAllocated", block_id=3), event(11, "TokensGenerated", request_id="r")]
    mount("event_tail")
    items = "[...inside('event_tail', 'ol').children].map(row => row.querySelector('.kind').textContent)"
    page.wait_for_function(f"JSON.stringify({items}) === '[\"BlockAllocated\"]'")
    page.evaluate("inside('event_tail', '.every').click()")
    page.wait_for_function(f'JSON.stringify({items}) === \'["BlockAllocated","TokensGenerated"]\'')
    backend.events = [event(40, "BlockFreed", block_id=3)]
    backend.send_summary()
    page.wait_for_function(f"({items})[0] === 'BlockFreed'")
    assert page.evaluate("inside('event_tail', 'li .skipped').textContent") == "27 more events between"


def test_what_one_action_did_to_many_blocks_is_one_line_that_opens(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    freed = [event(20 - at, "BlockFreed", block_id=at, request_id="r", cause="finish", a0=1) for at in range(5)]
    backend.events = [event(30, "RequestArrived", request_id="s"), *freed]
    mount("event_tail")
    texts = "[...inside('event_tail', 'ol').children].map(row => row.querySelector('.what').innerText)"
    page.wait_for_function(f"({texts}).length === 2")
    run = page.evaluate(f"({texts})[1]")
    assert run.split() == ["BlockFreed", "×5", "r", "finish"]
    page.evaluate("inside('event_tail', 'li:nth-child(2) .what button').click()")
    page.wait_for_function(f"({texts}).length === 7")
    assert "block 0" in page.evaluate(f"({texts})[2]")


def test_run_that_the_feed_may_have_cut_says_so(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    backend.events = [event(10, "RequestArrived", request_id="s")]
    mount("event_tail")
    page.wait_for_function("inside('event_tail', 'ol').children.length === 1")
    backend.events = [event(90 - at, "BlockFreed", block_id=at, request_id="r", cause="finish") for at in range(3)]
    backend.send_summary()
    page.wait_for_function("inside('event_tail', 'li').innerText.includes('×3 or more')")


def test_events_are_worded_alike_in_python_and_in_the_browser(page: Page) -> None:
    events = [
        {**event(1, kind), "cause": cause, "value": value, "a0": value, "a1": 1234}
        for kind in KINDS
        for cause in ("none", "finish")
        for value in (0, 1, 70_000)
    ]
    events.append({**event(1, "RequestPreempted", request_id="victim"), "a0": 32, "taker_id": "lucky"})
    assert event_words(events[-1]) == "32 tokens to compute again, blocks to lucky"
    written = page.evaluate(
        """async events => {
          const { eventWords } = await import("/assets/kvxray/event_words.js");
          return events.map(eventWords);
        }""",
        events,
    )
    assert written == [event_words(each) for each in events]


def request_row(ordinal: int, request_id: str, status: str, blocks: int = 0) -> dict[str, Any]:
    return {
        "request_id": request_id,
        "ordinal": ordinal,
        "status": status,
        "prompt_tokens": 100,
        "output_tokens": 3,
        "hit_tokens": 50,
        "blocks": blocks,
        "shared_blocks": 0,
        "leaked_blocks": 0,
        "arrived_at": "2026-01-01T00:00:00.000Z",
        "ended_at": None if status in ("waiting", "running", "preempted") else "2026-01-01T00:01:12.000Z",
        "ttft_s": figure(0.1, "seconds"),
        "preemptions": 0,
    }


def text_answer(text: str, finished: bool) -> dict[str, Any]:
    return {"request_id": "agent-1/turn-2", "text": text, "finished": finished}


def finding(name: str, sentence: str) -> dict[str, Any]:
    return {
        "id": name,
        "kind": "leak",
        "severity": "critical",
        "time": "2026-01-01T00:00:00.000Z",
        "state": "open",
        "subjects": {"blocks": [3, 4], "requests": ["r"]},
        "sentence": sentence,
    }


def event(seq: int, kind: str, **more: Any) -> dict[str, Any]:
    base = {"request_id": None, "block_id": None, "value": None, "a0": 1, "a1": 1, "step": 1, "cause": "none"}
    return {**base, "seq": f"1.{seq}", "time": "2026-01-01T00:00:00.000Z", "kind": kind, **more}
