"""A request in the inspector, in a real browser: where its time went, what it holds, and the ways from there."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.app.map_probe import ACTIVE, SHARED, block_answer, open_at
from tests.app.scripted_backend import ScriptedBackend, figure
from tests.app.test_page_panels import event, finding, request_row

pytestmark = pytest.mark.browser

Mount = Callable[..., None]
TITLE = "inside('inspector', 'h2').textContent"
SHOWN = "inside('inspector', '.body > div:not([hidden])')"


def fact(page: Page, name: str) -> str:
    """What the inspector says under a name."""
    text: str = page.evaluate(
        f"name => [...{SHOWN}.querySelectorAll('dt')].find(dt => dt.textContent === name).nextSibling.innerText", name
    )
    return text


def request_answer(backend: ScriptedBackend, **more: Any) -> dict[str, Any]:
    """The backend tells of a request `agent-1`; what it tells."""
    row = {**request_row(1, "agent-1", "running", blocks=2), "shared_blocks": 1}
    times = {"waiting_s": 0.02, "prefill_s": 0.08, "decode_s": 1.5}
    answer = {**row, **{name: figure(value, "seconds") for name, value in times.items()}, "queried_tokens": 100}
    answer |= {"block_table": [3, 4], **more}
    backend.requests = [{name: answer[name] for name in row}]
    backend.answers["requests/agent-1"] = answer
    freed = [event(20 + at, "BlockFreed", block_id=at, request_id="agent-1", cause="finish") for at in range(9)]
    backend.answers["requests/agent-1/history"] = {"events": [event(7, "RequestArrived"), *freed], "next": None}
    return answer


def test_permalink_opens_on_its_request(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    backend.set_block(3, SHARED, 2, 16)
    request_answer(backend)
    open_at(page, backend, "request=agent-1")
    mount("inspector")
    page.wait_for_function(f"{TITLE} === 'agent-1' && {SHOWN}.querySelectorAll('.square').length === 2")
    assert [fact(page, name) for name in ("Prompt", "Generated", "Blocks held")] == [
        "100 tokens",
        "3 tokens",
        "2, 1 shared",
    ]
    assert fact(page, "From prefix cache") == "50 of 100 (50.0%)"
    assert [fact(page, name) for name in ("Waited", "Prefill", "First token", "Decode")] == [
        "20 ms",
        "80 ms",
        "100 ms",
        "1.50 s",
    ]
    first = page.evaluate(f"{SHOWN}.querySelector('.square').ariaLabel")
    assert first == "Block 3, shared"
    page.wait_for_function(f"{SHOWN}.querySelectorAll('.events li').length === 2")
    run = page.evaluate(f"{SHOWN}.querySelector('.events li').innerText")
    assert "BlockFreed ×9" in run
    assert "and 4 more" in run


def test_what_is_not_known_of_a_request_is_said_in_words(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    unknown = figure(None, "seconds")
    request_answer(
        backend, preemptions=1, arrived_at=None, prompt_tokens=None, waiting_s=unknown, prefill_s=unknown,
        ttft_s=unknown, decode_s=unknown, hit_tokens=None,
    )  # fmt: skip
    open_at(page, backend, "request=agent-1")
    mount("inspector")
    page.wait_for_function(f"{SHOWN}.querySelectorAll('.square').length === 2")
    names = ("Arrived", "Waited", "Prefill", "First token", "Decode", "Prompt", "From prefix cache", "Preempted")
    assert [fact(page, name) for name in names] == [
        "not seen", "not seen", "not seen", "not seen", "not yet", "—", "—", "1×",
    ]  # fmt: skip


def test_a_figure_that_is_not_exact_says_so(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    backend.findings = [{**finding("f1", "12 messages never arrived."), "epoch": 1, "seq0": 3}]
    request_answer(backend, decode_s={**figure(1.5, "seconds", "derived"), "taints": ["f1"]})
    open_at(page, backend, "request=agent-1")
    mount("inspector")
    page.wait_for_function(f"{SHOWN}.querySelectorAll('.square').length === 2")
    assert fact(page, "Decode").split() == ["1.50", "s", "derived"]
    assert fact(page, "Waited") == "20 ms"
    page.evaluate(f"[...{SHOWN}.querySelectorAll('.certainty')].find(mark => !mark.hidden).focus()")
    assert "Spoiled by: 12 messages never arrived." in page.evaluate("inside('inspector', '.kx-tip').textContent")


def test_a_leak_and_its_finding_are_told(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    about = {"blocks": [3, 4], "requests": ["agent-1"]}
    other = {"blocks": [5], "requests": ["agent-2"]}
    backend.findings = [
        {**finding("f1", "Leak: request agent-1."), "epoch": 1, "seq0": 30, "subjects": about},
        {**finding("f2", "Leak: request agent-2."), "epoch": 1, "seq0": 31, "subjects": other},
    ]
    request_answer(backend, status="aborted", leaked_blocks=2, ended_at="2026-01-01T00:01:12.000Z")
    open_at(page, backend, "request=agent-1")
    mount("inspector")
    page.wait_for_function(f"{SHOWN}.querySelector('.about li')")
    assert page.evaluate(f"{SHOWN}.querySelector('.meaning').textContent") == (
        "Leak: it has ended and still holds 2 blocks."
    )
    assert page.evaluate(f"{SHOWN}.querySelector('.about').innerText").startswith("Leak: request agent-1.")
    assert page.evaluate(f"{SHOWN}.querySelectorAll('.about li').length") == 1


def test_a_block_beyond_those_that_a_leak_lists_tells_of_it_as_the_api_does(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    leak = {**finding("f1", "Leak: request agent-1."), "epoch": 1, "seq0": 30, "numbers": {"blocks": 1200}}
    other = {**finding("f2", "Leak: request agent-2."), "epoch": 1, "seq0": 31, "numbers": {"blocks": 2}}
    backend.findings = [leak, other]
    backend.answers["blocks/5"] = {**block_answer(5), "findings": [leak]}
    open_at(page, backend, "block=5")
    mount("inspector")
    page.wait_for_function(f"{SHOWN}.querySelector('.about li')")
    assert page.evaluate(f"{SHOWN}.querySelector('.about').innerText").startswith("Leak: request agent-1.")
    assert page.evaluate(f"{SHOWN}.querySelectorAll('.about li').length") == 1


def test_from_a_request_to_its_block_and_back(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    backend.set_block(3, ACTIVE, 1, 16)
    request_answer(backend)
    backend.answers["blocks/3"] = block_answer(3)
    open_at(page, backend, "request=agent-1")
    mount("inspector")
    page.wait_for_function(f"{SHOWN}.querySelector('.square')")
    page.evaluate(f"{SHOWN}.querySelector('.square').click()")
    page.wait_for_function(f"{TITLE} === 'Block 3' && location.search === '?request=agent-1&block=3'")
    page.wait_for_function("inside('inspector', '.back').textContent === '‹ agent-1'")
    page.go_back()
    page.wait_for_function(f"{TITLE} === 'agent-1' && location.search === '?request=agent-1'")
    page.go_forward()
    page.wait_for_function(f"{TITLE} === 'Block 3'")
    page.evaluate("inside('inspector', '.back').click()")
    page.wait_for_function(f"{TITLE} === 'agent-1'")
    page.evaluate("inside('inspector', '[aria-label=\"Close the inspector\"]').click()")
    page.wait_for_function(f"{TITLE} === 'Inspector' && location.search === ''")


def test_a_request_is_found_in_the_table(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    request_answer(backend)
    open_at(page, backend, "request=agent-1")
    mount("requests_table")
    mount("inspector")
    page.wait_for_function(f"{SHOWN}?.querySelector('.chain') && !{SHOWN}.querySelector('.chain').hidden")
    page.wait_for_function("inside('requests_table', 'tr[aria-selected=true]')")
    page.evaluate(f"{SHOWN}.querySelector('.chain button').click()")
    page.wait_for_function("inside('requests_table', 'tr:focus')?.textContent.includes('agent-1')")


def test_from_a_block_to_its_holder(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    request_answer(backend)
    backend.answers["blocks/3"] = block_answer(3)
    open_at(page, backend, "block=3")
    mount("inspector")
    page.wait_for_function(f"{SHOWN}.querySelector('.holders .link')")
    page.evaluate(f"{SHOWN}.querySelector('.holders .link').click()")
    page.wait_for_function(f"{TITLE} === 'agent-1' && location.search === '?request=agent-1'")


def test_a_request_that_is_forgotten_shows_what_is_stored_of_it(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    request_answer(backend)
    backend.requests = []
    del backend.answers["requests/agent-1"]
    open_at(page, backend, "request=agent-1")
    mount("inspector")
    page.wait_for_function(f"{SHOWN}?.querySelector('.meaning').textContent.startsWith('There is no such thing.')")
    assert page.evaluate(f"{SHOWN}.querySelectorAll('.events li').length") == 2
    assert fact(page, "Prompt") == "—"


def test_a_running_request_is_asked_about_again_when_it_grows(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    answer = request_answer(backend)
    open_at(page, backend, "request=agent-1")
    mount("inspector")
    page.wait_for_function(f"{SHOWN}.querySelectorAll('.square').length === 2")
    backend.answers["requests/agent-1"] = {**answer, "blocks": 3, "block_table": [3, 4, 5]}
    backend.requests = [{**backend.requests[0], "blocks": 3}]
    backend.send_summary()
    page.wait_for_function(f"{SHOWN}.querySelectorAll('.square').length === 3")
    page.wait_for_function(f"{SHOWN}.querySelector('.freshness').textContent === 'up to date'")


def test_copies_the_answers_of_the_api(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    answer = request_answer(backend)
    open_at(page, backend, "request=agent-1")
    page.evaluate(
        "Object.defineProperty(navigator, 'clipboard', {value: {writeText: async t => void (window.got = t)}})"
    )
    mount("inspector")
    page.wait_for_function(f"{SHOWN}.querySelectorAll('.events li').length === 2")
    page.wait_for_function(f"{SHOWN}.querySelectorAll('.square').length === 2")
    page.evaluate("inside('inspector', '.copy').click()")
    page.wait_for_function("inside('inspector', '.copy').textContent === 'Copied'")
    told = json.loads(page.evaluate("window.got"))
    history = backend.answers["requests/agent-1/history"]
    assert told == {
        "/api/requests/agent-1?source=demo": answer,
        "/api/requests/agent-1/history?source=demo&limit=200": history,
    }
    page.wait_for_function("inside('inspector', '.copy').textContent === 'Copy JSON'")


@pytest.mark.parametrize(
    ("written", "search"),
    [("17", "?block=17"), ("AB" * 32, f"?prefix={'ab' * 32}"), ("agent-1/turn-2", "?request=agent-1%2Fturn-2")],
)
def test_what_is_written_into_the_empty_inspector_is_found(
    page: Page, backend: ScriptedBackend, mount: Mount, written: str, search: str
) -> None:
    mount("inspector")
    page.evaluate("text => { inside('inspector', 'input').value = text }", written)
    page.evaluate("inside('inspector', 'form').requestSubmit()")
    page.wait_for_function("search => location.search === search", arg=search)


def test_a_finding_that_no_summary_has_room_for_is_told_with_its_request(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    about = {"blocks": [3], "requests": ["agent-1"]}
    backend.findings = [{**finding("f2", "Leak: request agent-2."), "epoch": 1, "seq0": 31}]
    backend.num_findings = 5000
    request_answer(
        backend, findings=[{**finding("f1", "Leak: request agent-1."), "epoch": 1, "seq0": 30, "subjects": about}]
    )
    open_at(page, backend, "request=agent-1")
    mount("inspector")
    page.wait_for_function(f"{SHOWN}.querySelector('.about li')")
    assert page.evaluate(f"{SHOWN}.querySelector('.about').innerText").startswith("Leak: request agent-1.")
    assert page.evaluate(f"{SHOWN}.querySelectorAll('.about li').length") == 1


def test_an_id_that_no_path_can_carry_goes_into_the_query(page: Page) -> None:
    route = """([id, rest]) => import('/assets/kvxray/address.js').then(({apiUrl, requestRoute}) => {
      const {pathname, search} = apiUrl(...requestRoute(id, rest));
      return pathname + search;
    })"""
    told = {
        id: page.evaluate(route, [id, "/text"]) for id in ("a-1", "a/b c", "..", ".", "a/../b", "x/text", "1\n2", "")
    }
    assert told == {
        "a-1": "/api/requests/a-1/text",
        "a/b c": "/api/requests/a%2Fb%20c/text",
        "..": "/api/requests/-/text?id=..",
        ".": "/api/requests/-/text?id=.",
        "a/../b": "/api/requests/-/text?id=a%2F..%2Fb",
        "x/text": "/api/requests/-/text?id=x%2Ftext",
        "1\n2": "/api/requests/-/text?id=1%0A2",
        "": "/api/requests/-/text?id=",
    }
