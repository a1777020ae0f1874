"""The culprits of an alert, marked on the live page: blocks on the map, the request in its table, hashes among the
cached; through steps in time, until somebody removes the marks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kvxray_app.components.alerts import SEVERITIES
from kvxray_backend.alerts.alert import AlertMoment
from kvxray_backend.analysis.finding import Subjects
from playwright.sync_api import Page

from tests.app.alerts_answers import BEGAN, alert, finding, view
from tests.app.map_probe import ACTIVE, open_at
from tests.app.residency_answers import forest, hash_view, link, screen_data, tell
from tests.app.scripted_backend import ScriptedBackend
from tests.app.test_page_residency_axe import assert_accessible, turn_to

pytestmark = pytest.mark.browser

Mount = Callable[..., None]
ROW = {
    "ordinal": 1, "request_id": "agent-3", "status": "aborted", "prompt_tokens": 32, "hit_tokens": 0,
    "output_tokens": 3, "blocks": 3, "shared_blocks": 0, "preemptions": 0, "leaked_blocks": 3,
    "arrived_at": "2026-01-01T00:00:10.000Z", "ended_at": "2026-01-01T00:00:20.000Z", "ttft_s": None,
}  # fmt: skip


def mark(page: Page, backend: ScriptedBackend, *blocks: int, query: str = "mark=a1", **changed: Any) -> None:
    """An alert about these blocks and a request, and a page whose address names it."""
    subjects = changed.pop("subjects", Subjects(blocks=blocks or (4, 5, 6), requests=("agent-3",)))
    backend.answers["alerts/a1"] = view(alert("a1", findings=(finding(subjects=subjects),), **changed))
    open_at(page, backend, query)


def strip(page: Page, mount: Mount, kind: str = "blocks") -> None:
    mount("alert_strip", wait=False, kind=kind, severities=SEVERITIES)
    page.wait_for_function("inside('alert_strip', '.strip').checkVisibility()")


def press(page: Page, text: str) -> None:
    script = """text => [...inside('alert_strip', '.strip').querySelectorAll('button')]
      .find((button) => button.innerText === text).click()"""
    page.evaluate(script, text)


def wait_for_marks(page: Page, number: int) -> None:
    page.wait_for_function("number => __kvxray.map?.marked() === number", arg=number)


def test_the_strip_names_the_alert_its_culprit_and_the_way_back(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    mark(page, backend)
    strip(page, mount)
    said = page.evaluate("inside('alert_strip', '.strip').innerText")
    for words in ("Warning", "LeakNamed", "on demo since ", "Request agent-3, aborted, holds blocks 4, 5 and 6."):
        assert words in said
    assert page.evaluate("inside('alert_strip', 'a.quiet-button').href") == f"{backend.url}/alerts?id=a1"
    chips = page.evaluate("[...inside('alert_strip', '.chips').children].map((chip) => chip.innerText)")
    assert chips == ["agent-3", "block 4", "block 5", "block 6"]


def test_blocks_of_the_alert_stand_out_on_the_map_until_the_marks_are_removed(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    for block in range(1, 9):
        backend.set_block(block, ACTIVE, 1, 16)
    mark(page, backend)
    strip(page, mount)
    mount("block_map")
    wait_for_marks(page, 3)
    press(page, "block 5")
    assert "block=5" in page.url
    assert "mark=a1" in page.url
    press(page, "agent-3")
    assert "request=agent-3" in page.url
    press(page, "Remove marks")
    wait_for_marks(page, 0)
    assert "mark" not in page.url
    assert not page.evaluate("inside('alert_strip', '.strip').checkVisibility()")


def test_a_thousand_blocks_are_marked_and_a_pool_that_has_fewer_is_no_error(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    backend.resize(3001)
    mark(page, backend, *range(2500, 3500))
    strip(page, mount)
    mount("block_map")
    wait_for_marks(page, 501)
    assert "and 996 more blocks" in page.evaluate("inside('alert_strip', '.chips').innerText")


def test_blocks_of_another_source_are_other_blocks(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    backend.answers["alerts/a1"] = view(alert("a1", findings=(finding(source="gpu-7"),)))
    open_at(page, backend, "mark=a1")
    strip(page, mount)
    mount("block_map")
    page.wait_for_function("__kvxray.map?.cellCentre(1) != null")
    wait_for_marks(page, 0)


def test_the_request_is_named_in_the_table(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    backend.requests = [ROW, ROW | {"ordinal": 2, "request_id": "agent-4"}]
    mark(page, backend)
    mount("requests_table")
    page.wait_for_function("inside('requests_table', 'tr[data-marked] .badge')?.innerText === 'to blame'")
    assert page.evaluate("inside('requests_table', 'tbody').querySelectorAll('[data-marked]').length") == 1


def test_marks_stay_through_steps_in_time_and_lead_back_to_when_it_fired(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    mark(page, backend, query="mark=a1&at=1.80")
    strip(page, mount)
    press(page, "To when it fired")
    page.wait_for_function("location.search.includes('at=1.90')")
    assert "mark=a1" in page.url
    script = (
        "text => [...inside('alert_strip', '.ways').children].find((way) => way.innerText === text)?.checkVisibility()"
    )
    assert not page.evaluate(script, "To when it fired")


def test_a_moment_has_no_marks_of_what_was_found_after_it(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    later = finding(id="f2", seq0=120, seq1=120, subjects=Subjects(blocks=(7, 8), requests=("agent-4",)))
    backend.answers["alerts/a1"] = view(alert("a1", findings=(finding(seq0=90), later), num_findings=2))
    open_at(page, backend, "mark=a1&at=1.80")
    strip(page, mount)
    chips = "[...inside('alert_strip', '.chips').children].map((chip) => chip.innerText)"
    marked = ["agent-3", "block 4", "block 5", "block 6"]
    assert page.evaluate(chips) == marked  # before it fired too: how it came to be
    said = "inside('alert_strip', '.note').innerText"
    assert page.evaluate(said) == "1 more finding came after this moment and is not marked in it."
    press(page, "To when it fired")
    page.wait_for_function(f"{said}.startsWith('It was noticed after this event, the last before the alert: ')")
    assert page.evaluate(said).endswith("1 more finding came after this moment and is not marked in it.")
    assert page.evaluate(chips) == marked


def test_live_everything_that_was_found_is_marked(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    later = finding(id="f2", seq0=120, seq1=120, subjects=Subjects(blocks=(7, 8), requests=("agent-4",)))
    backend.answers["alerts/a1"] = view(alert("a1", findings=(finding(), later), num_findings=2))
    open_at(page, backend, "mark=a1")
    strip(page, mount)
    mount("block_map")
    wait_for_marks(page, 5)
    assert not page.evaluate("inside('alert_strip', '.note').checkVisibility()")


def test_an_alert_that_is_gone_is_said_and_left(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    open_at(page, backend, "mark=gone")
    strip(page, mount)
    assert "There is no such thing." in page.evaluate("inside('alert_strip', '.strip').innerText")
    press(page, "Remove marks")
    assert "mark" not in page.url


def test_without_a_mark_the_strip_takes_no_room(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    mount("alert_strip", wait=False, kind="blocks", severities=SEVERITIES)
    assert page.evaluate("document.getElementById('alert_strip').offsetHeight") == 0
    assert not [path for path in backend.asked if path.startswith("alerts")]


def test_hashes_of_the_alert_are_marked_among_the_cached(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    tell(backend, forest())
    backend.answers["residency/hash"] = hash_view(2)
    moment = AlertMoment(source="demo", epoch=1, seq=90, time_ns=BEGAN)
    hashes = Subjects(hashes=(link(2)["hash"],))
    mark(page, backend, subjects=hashes, rule="CrossTenantHit", moment=moment)
    strip(page, mount, "hashes")
    page.evaluate("data => mountComponent('residency', data)", screen_data())
    page.wait_for_function("__kvxray.residency?.marked() === 1")
    page.evaluate("inside('alert_strip', '.chip').click()")
    page.wait_for_function("hash => location.search.includes(`hash=${hash}`)", arg=link(2)["hash"])
    press(page, "Remove marks")
    page.wait_for_function("__kvxray.residency.marked() === 0")


@pytest.mark.parametrize("theme", ["dark", "light"])
def test_axe_finds_nothing_in_the_strip(page: Page, backend: ScriptedBackend, mount: Mount, theme: str) -> None:
    backend.requests = [ROW]
    mark(page, backend, severity="critical")
    turn_to(page, theme)
    strip(page, mount)
    mount("requests_table")
    page.wait_for_function("inside('requests_table', 'tr[data-marked]') !== null")
    assert_accessible(page, theme)
