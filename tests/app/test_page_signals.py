"""The page of signals in a real browser: numbers with units, holes in lines, heat maps; what is not told is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kvxray_backend.metrics.signals import TOPICS
from playwright.sync_api import Page
from streamlit.testing.v1 import AppTest

from tests.app.browser import PATIENCE_MS
from tests.app.scripted_backend import ScriptedBackend
from tests.app.signals_answers import Metrics

pytestmark = pytest.mark.browser

Mount = Callable[..., None]
ALL_DRAWN = """() => {
  const notes = [...inside('signals', '.topics').querySelectorAll('.none')];
  return notes.length && notes.every((note) => note.textContent !== 'Loading…');
}"""
TTFT = (
    'vllm:time_to_first_token_seconds_bucket{{le="0.1"}} {most}\n'
    'vllm:time_to_first_token_seconds_bucket{{le="1"}} {n}\nvllm:time_to_first_token_seconds_bucket{{le="+Inf"}} {n}\n'
    "vllm:time_to_first_token_seconds_sum {n}\nvllm:time_to_first_token_seconds_count {n}\n"
)
TEXT = (
    "vllm:kv_cache_usage_perc {usage}\nvllm:prefix_cache_hits_total {hits}\nvllm:prefix_cache_queries_total {n}\n"
    'vllm:request_success_total{{finished_reason="stop"}} {n}\n'
    'vllm:request_success_total{{finished_reason="abort"}} {hits}\n'
    'vllm:num_requests_running{{engine="<b>x</b>"}} 3\n' + TTFT
)


def text(n: int, usage: float = 0.25) -> str:
    return TEXT.format(n=n, usage=usage, hits=n // 4, most=n * 9 // 10)


def show(page: Page, backend: ScriptedBackend, mount: Mount, metrics: Metrics, **status: Any) -> None:
    backend.answers["engines"] = {"engines": [{"name": "e", "metrics": {"state": "reading"}}]}
    backend.answers["signals"] = metrics.signals(**status)
    backend.answers["signals/course"] = metrics.course()
    # So high that all of it is in sight: what nobody sees is not asked for.
    page.set_viewport_size({"width": (page.viewport_size or {})["width"], "height": 6_000})
    mount("signals", wait=False)
    page.wait_for_function(ALL_DRAWN)


def of(page: Page, signal: str, selector: str) -> str:
    found: str = page.evaluate("w => inside('signals', w).textContent", f"[data-signal={signal}] {selector}")
    return found


def test_each_signal_has_its_number_with_its_unit_and_only_what_is_told_is_there(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    show(page, backend, mount, Metrics(text(0), text(600), text(1_200)))
    assert of(page, "kv_usage", ".value") == "25.0%"
    assert of(page, "prefix_queries", ".value") == "10.0/s"
    assert of(page, "prefix_queries", ".beside") == "1,200 in all"
    assert of(page, "prefix_queries", ".total") == "1,200 in this stretch"
    assert of(page, "hit_rate", ".value") == "25.0%"
    assert of(page, "ttft", ".value") == "56 ms"
    assert of(page, "ttft", ".beside").startswith("p99 910 ms")
    assert of(page, "requests_finished", ".parts") == "stop10.0/sabort2.5/s"
    assert page.evaluate("inside('signals', '[data-signal=preemptions]')") is None
    assert of(page, "kv_usage", ".label") == "Cache in use"
    assert page.evaluate("inside('signals', '[data-signal=prefix_hits] .mark').dataset.certainty") == "exact"


def test_a_time_without_readings_is_a_hole_in_the_line(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    pages = [text(0, 0.2), text(60, 0.4), None, None, text(240, 0.6), text(300, 0.8)]
    show(page, backend, mount, Metrics(*pages))
    drawn = page.evaluate("inside('signals', '[data-signal=kv_usage] .stroke').getAttribute('d')")
    assert drawn.count("M") == 2


def test_a_histogram_is_a_heat_map_with_its_quantiles(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    show(page, backend, mount, Metrics(text(0), text(600), text(1_200)))
    dark, light = page.evaluate(
        """() => {
          const canvas = inside('signals', '[data-signal=ttft] canvas');
          const context = canvas.getContext('2d');
          const at = (y) => context.getImageData(canvas.width / 2, y, 1, 1).data[3];
          return [at(canvas.height - 4), at(30)];
        }"""
    )
    assert dark > light > 0
    assert page.evaluate("inside('signals', '[data-signal=ttft] g').children.length") == 2


def test_what_is_pointed_at_is_told_in_every_chart_of_its_topic(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    show(page, backend, mount, Metrics(text(0), text(600, 0.5), text(1_800, 0.75)))
    page.evaluate(
        """() => {
          const chart = inside('signals', '[data-signal=prefix_queries] .chart');
          const box = chart.getBoundingClientRect();
          chart.dispatchEvent(new PointerEvent('pointermove', { clientX: box.left + box.width * 0.25 }));
        }"""
    )
    assert of(page, "prefix_queries", ".value") == "10.0/s"
    assert of(page, "hit_rate", ".value") == "25.0%"
    assert not page.evaluate("inside('signals', '[data-signal=prefix_hits] .cursor').hidden")
    page.evaluate(
        "inside('signals', '[data-signal=prefix_queries] .chart').dispatchEvent(new PointerEvent('pointerleave'))"
    )
    assert of(page, "prefix_queries", ".value") == "15.0/s"


def test_the_stretch_is_chosen_and_asked_for(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    show(page, backend, mount, Metrics(text(0), text(600)))
    with page.expect_request(lambda request: "signals/course" in request.url) as asked:
        page.evaluate("[...inside('signals', '.presses').children].find((one) => one.textContent === '15 d').click()")
    url = page.evaluate("url => Object.fromEntries(new URL(url).searchParams)", asked.value.url)
    days = page.evaluate("({ from, to }) => (Date.parse(to) - Date.parse(from)) / 86400e3", url)
    assert days == 15


def test_another_engine_is_chosen_for_the_other_pages_too(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    show(page, backend, mount, Metrics(text(0), text(600)))
    assert page.evaluate("toldStreamlit") == [], "arriving chooses nothing"
    reading = [{"name": name, "metrics": {"state": "reading"}} for name in ("e", "f")]
    backend.answers["engines"] = {"engines": reading}
    page.evaluate("unmount('signals')")
    mount("signals", wait=False)
    page.wait_for_function("inside('signals', 'select option[value=f]') !== null")
    with page.expect_request(lambda request: "/signals?" in request.url and "engine=f" in request.url):
        page.evaluate(
            "(choice => { choice.value = 'f'; choice.dispatchEvent(new Event('change')); })"
            "(inside('signals', 'select'))"
        )
    assert page.evaluate("toldStreamlit") == [["source", "f"]]
    assert page.evaluate("location.search") == "?source=f"


def test_while_nobody_answers_the_page_says_so_once(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    show(page, backend, mount, Metrics(text(0), text(600)))
    page.route("**/api/**", lambda route: route.abort())
    page.wait_for_function("!inside('signals', '.trouble').hidden")
    page.evaluate("inside('signals', '[aria-label$=\"24 h\"]').click()")
    page.wait_for_function("inside('signals', '.topics .failed').textContent === 'The backend does not answer.'")
    assert page.evaluate("[...inside('signals', '.topics').querySelectorAll('.failed')].every((one) => one.hidden)")
    assert "What is shown is of" in page.evaluate("inside('signals', '.trouble').textContent")


@pytest.mark.parametrize("width", [700, 1280, 1920])
def test_one_signal_alone_takes_the_whole_row(page: Page, backend: ScriptedBackend, mount: Mount, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    show(page, backend, mount, Metrics("vllm:kv_cache_usage_perc 0.25\n", "vllm:kv_cache_usage_perc 0.5\n"))
    room = "['.grid', '.signal', '.chart'].map((part) => inside('signals', part).getBoundingClientRect().width)"
    grid, card, chart = page.evaluate(room)
    assert card == grid
    assert chart > 0.9 * card


def test_where_less_is_told_than_was_asked_for_it_says_since_when(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    metrics = Metrics(text(0), text(600))
    show(page, backend, mount, metrics)
    began = page.evaluate("new Date(Date.now() - 600e3).toISOString()")
    backend.answers["signals/course"] |= {"times": [began]}
    page.evaluate("[...inside('signals', '.presses').children].find((one) => one.textContent === '24 h').click()")
    words = page.evaluate(
        "iso => new Date(iso).toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' })", began
    )
    since = "words => ((one) => !one.hidden && one.textContent.includes(words))(inside('signals', '.topic .faint'))"
    page.wait_for_function(since, arg=words)


def test_a_share_of_nothing_is_not_called_unread(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    asked = "vllm:prefix_cache_queries_total 5\nvllm:prefix_cache_hits_total 2\n"
    show(page, backend, mount, Metrics(asked, asked))
    words = """() => [...inside('signals', '.grid').querySelectorAll('.signal')]
      .find((one) => one.textContent.startsWith('Hit rate, device'))?.textContent ?? ''"""
    page.wait_for_function(f"() => ({words})().includes('Nothing to take a share of in this stretch.')")


def test_what_is_not_told_is_listed_in_a_fold(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    metrics = Metrics(text(0), text(600))
    show(page, backend, mount, metrics)
    backend.answers["signals"] = metrics.signals(with_untold=True)
    page.evaluate("inside('signals', 'details').open = true")
    page.wait_for_function("inside('signals', '.untold li')")
    listed = page.evaluate("[...inside('signals', '.untold').querySelectorAll('li')].map((one) => one.textContent)")
    assert {"Preemptions", "Index lookups", "LMCache hit tokens"} <= set(listed)
    assert "Cache in use" not in listed


def test_metrics_that_fail_are_said_to_and_what_is_old_is_faint(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    show(page, backend, mount, Metrics(text(0), text(600)), state="failing", stale=True)
    state = page.evaluate("inside('signals', '.state').textContent")
    assert "What is shown is of" in state
    assert page.evaluate("getComputedStyle(inside('signals', '.value')).opacity") == "0.5"


def test_an_engine_that_is_not_read_says_why_and_shows_no_number(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    answer = Metrics().signals()
    answer["status"] |= {"state": "failing", "sentence": "No metrics yet: it answers with 503."}
    backend.answers |= {"signals": answer, "engines": {"engines": []}}
    mount("signals", wait=False)
    page.wait_for_function("inside('signals', '.note').textContent.includes('503')")
    assert page.evaluate("inside('signals', '.signal')") is None
    assert page.evaluate("inside('signals', 'details').hidden")


def test_a_backend_that_refuses_is_quoted(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    mount("signals", wait=False)
    page.wait_for_function("inside('signals', '.note').textContent.includes('There is no such thing.')")


def test_every_topic_of_the_table_is_a_panel(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    metrics = Metrics(text(0), text(600))
    backend.answers |= {"engines": {"engines": []}, "signals": metrics.signals(with_untold=True)}
    backend.answers["signals/course"] = metrics.course()
    mount("signals", wait=False)
    page.wait_for_function("inside('signals', '.topic')")
    drawn = page.evaluate("[...inside('signals', '.topics').children].map((one) => one.dataset.topic)")
    assert drawn == list(TOPICS)
    assert of(page, "preemptions", ".value") == "not observable"


def test_nothing_is_wider_than_a_narrow_page(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    page.set_viewport_size({"width": 360, "height": 700})
    page.evaluate("document.body.style.width = '340px'")
    show(page, backend, mount, Metrics(text(0), text(600)))
    assert page.evaluate("inside('signals', '.topics').scrollWidth") <= 340


def test_the_page_lays_out_without_a_backend() -> None:
    def script() -> None:
        from kvxray_app.views.signals import signals

        signals()

    assert not AppTest.from_function(script, default_timeout=PATIENCE_MS / 1000).run().exception
