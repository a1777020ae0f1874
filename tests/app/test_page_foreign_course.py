"""The timelines of an engine that is watched from outside, in a browser: what was told, and what was not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.app.scripted_backend import ScriptedBackend, component_data

pytestmark = pytest.mark.browser
Open = Callable[..., None]


@pytest.fixture
def show(page: Page) -> Open:
    def mount(kind: str = "hashes") -> None:
        data = component_data(kind=kind, home=None, engine="demo")
        page.evaluate("data => mountComponent('foreign_course', data)", data)
        page.wait_for_function("inside('foreign_course', '.lack').textContent !== ''")

    return mount


def now_s(page: Page) -> int:
    return int(page.evaluate("Math.floor(Date.now() / 1000)"))


def answer(page: Page, backend: ScriptedBackend, **signals: Any) -> None:
    """Cached blocks over three buckets, a hole, and two more; and what metrics told over the same."""
    end = now_s(page)
    seconds = [end - 300 + 10 * at for at in (0, 1, 2, 10, 11)]
    begin, last = (page.evaluate("s => new Date(s * 1000).toISOString()", seconds[at]) for at in (0, -1))
    series = {"cached": [10, 20, 30, 20, 22], "stores_per_s": [None] * 5, "evictions_per_s": [0.5] * 5}
    backend.answers["course"] = {
        "begin": begin,
        "end": last,
        "t": seconds,
        "seconds": 10,
        "epoch": [1] * 5,
        "series": series,
    }
    told = {name: {"values": values, "more": {}} for name, values in signals.items()}
    times = page.evaluate("at => at.map(second => new Date(second * 1000).toISOString())", seconds)
    backend.answers["signals/course"] = {"engine": "demo", "step_s": 10, "times": times, "series": told}


def shown(page: Page) -> list[str]:
    found: list[str] = page.evaluate(
        "[...inside('foreign_course', '.grid').children].filter(one => !one.hidden).map(one => one.dataset.chart)"
    )
    return found


def test_what_was_told_is_drawn_with_its_holes_and_the_rest_is_named(
    page: Page, backend: ScriptedBackend, show: Open
) -> None:
    answer(page, backend, kv_usage=[0.0, 0.0, 0.5, 0.0, 0.0], hit_rate=[None] * 5)
    show()
    page.wait_for_function("!inside('foreign_course', '[data-chart=cached]').hidden")
    assert shown(page) == ["cached", "churn", "usage"]
    path = page.evaluate("inside('foreign_course', '[data-chart=cached] .line').getAttribute('d')")
    assert path.count("M") == 2  # what nobody told is no line
    assert page.evaluate("inside('foreign_course', '[data-chart=usage] .highest').textContent") == "100.0%"
    lack = page.evaluate("inside('foreign_course', '.lack').textContent")
    assert lack.startswith("Not told in this stretch: prefix hit rate, requests, preemptions,")
    readings = page.evaluate("inside('foreign_course', '[data-chart=churn] .readings').textContent")
    assert "stored/s—" in readings
    assert "removed/s0.5" in readings


def test_pointing_reads_a_moment_and_pressing_goes_there(page: Page, backend: ScriptedBackend, show: Open) -> None:
    answer(page, backend)
    show()
    page.wait_for_function("!inside('foreign_course', '[data-chart=cached]').hidden")
    box = page.evaluate(
        "(({left, top, width}) => [left, top, width])"
        "(inside('foreign_course', '[data-chart=cached] .plot').getBoundingClientRect())"
    )
    page.mouse.move(box[0] + box[2] * 0.08, box[1] + 40)  # the third bucket of a stretch of 300 s
    page.wait_for_function("inside('foreign_course', '[data-chart=cached] .readings').textContent.includes('30')")
    page.evaluate("inside('foreign_course', '[data-chart=cached] .plot').focus()")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    page.wait_for_url("**/?source=demo&at=20*")


def test_where_nothing_can_be_told_the_reason_is(page: Page, backend: ScriptedBackend, show: Open) -> None:
    show("metrics")
    page.wait_for_function("inside('foreign_course', '.lack').textContent.includes('There is no such thing.')")
    assert shown(page) == []
    assert "course" not in backend.asked
    assert page.evaluate("inside('foreign_course', '.panel-head .muted').textContent").startswith("Nothing was told")
    assert page.evaluate("inside('foreign_course', '.presses a').href") == f"{backend.url}/signals?source=demo"


def test_another_stretch_is_asked_for(page: Page, backend: ScriptedBackend, show: Open) -> None:
    answer(page, backend, kv_usage=[0.5] * 5)
    show()
    before = backend.asked.count("signals/course")
    page.evaluate("[...inside('foreign_course', '.presses').children].at(1).click()")
    page.wait_for_function("inside('foreign_course', '.presses button[aria-pressed=true]').textContent === '1 h'")
    page.wait_for_timeout(500)
    assert backend.asked.count("signals/course") == before + 1


def test_all_that_is_kept_is_one_stretch(page: Page, backend: ScriptedBackend, show: Open) -> None:
    answer(page, backend)
    show()
    page.evaluate("inside('foreign_course', '[aria-label^=All]').click()")
    page.wait_for_function("inside('foreign_course', '[aria-label^=All]').getAttribute('aria-pressed') === 'true'")
    # From its first event on: the line begins at the left edge.
    page.wait_for_function(
        "inside('foreign_course', '[data-chart=cached] .line').getAttribute('d').startsWith('M0.0 ')"
    )


def test_a_moment_of_the_past_is_where_the_stretch_ends(page: Page, backend: ScriptedBackend, show: Open) -> None:
    page.goto(f"{backend.url}/?at=1.5")
    page.wait_for_function("window.ready")
    answer(page, backend)
    backend.answers["residency"] = {"time": "2026-01-01T00:02:00.000Z"}
    show()
    page.wait_for_function("inside('foreign_course', '.past').textContent.startsWith('Up to 1 Jan 2026, 00:02:00')")
    del backend.answers["residency"]
    page.evaluate("inside('foreign_course', '[aria-label$=\"1 h\"]').click()")
    page.wait_for_function("inside('foreign_course', '.past').textContent.includes('is not known')")
    page.evaluate("[...inside('foreign_course', '.panel-head').children].find(one => one.tagName === 'BUTTON').click()")
    page.wait_for_function("location.search === ''")
    page.wait_for_function("inside('foreign_course', '.past').textContent === ''")


def test_a_value_that_stands_alone_is_a_dot(page: Page, backend: ScriptedBackend, show: Open) -> None:
    answer(page, backend, kv_usage=[None, 0.5, None, None, 0.25])
    show()
    page.wait_for_function("!inside('foreign_course', '[data-chart=usage]').hidden")
    dots = page.evaluate("inside('foreign_course', '[data-chart=usage] .dots').getAttribute('d')")
    assert dots.count("M") == 2
    assert page.evaluate("inside('foreign_course', '[data-chart=cached] .dots').getAttribute('d')") == ""


def test_a_stretch_with_little_in_it_begins_where_that_begins(page: Page, backend: ScriptedBackend, show: Open) -> None:
    answer(page, backend)
    show()
    page.wait_for_function("inside('foreign_course', '.panel-head .muted').textContent.startsWith('since ')")
    path = page.evaluate("inside('foreign_course', '[data-chart=cached] .line').getAttribute('d')")
    assert path.startswith("M0.0 ")


def test_while_nobody_answers_what_was_drawn_stays_and_says_of_when_it_is(
    page: Page, backend: ScriptedBackend, show: Open
) -> None:
    answer(page, backend, kv_usage=[0.5] * 5)
    show()
    page.wait_for_function("!inside('foreign_course', '[data-chart=usage]').hidden")
    before = shown(page)
    page.route("**/api/**", lambda route: route.abort())
    page.evaluate("inside('foreign_course', '[aria-pressed=true]').click()")
    words = "inside('foreign_course', '.panel-head .muted').textContent"
    page.wait_for_function(f"{words}.includes('What is shown is of')")
    assert page.evaluate(words).count("The backend does not answer.") == 1
    assert shown(page) == before
    page.unroute("**/api/**")
    page.evaluate("inside('foreign_course', '[aria-pressed=true]').click()")
    page.wait_for_function(f"!{words}.includes('does not answer')")
