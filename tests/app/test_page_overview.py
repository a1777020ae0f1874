"""The overview in a real browser: the verdict and what it rests on, unknown never a number, all states of the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kvxray_app import client as client_module
from kvxray_app.client import BackendError
from kvxray_app.components.overview_panels import FLEET, PANELS, overview_words
from playwright.sync_api import Page
from streamlit.testing.v1 import AppTest

from tests.app.scripted_backend import ScriptedBackend, figure

Mount = Callable[..., None]
STATES = ("unknown", "empty", "free", "cached", "active", "shared")


def engine(source: str, status: str = "healthy", cause: str | None = None, **changed: Any) -> dict[str, Any]:
    """As `/api/overview` tells of one, with a few figures; all others are missing, as of one never joined."""
    evidence = {"name": "waiting", "label": "waiting", "figure": figure(3, "requests"), "page": "live", "query": {}}
    verdict = {
        "status": status, "cause": cause, "rule": "told", "sentence": f"A sentence on {source}.", "advice": "Do this.",
        "evidence": [evidence], "also": [], "not_judged": ["transfers: this source tells of none"],
    }  # fmt: skip
    figures = {
        "used": figure(0.5, "ratio"), "hit_rate": figure(0.25, "ratio"), "running": figure(7, "requests"),
        "waiting": figure(3, "requests"), "preemptions_per_finished": figure(0.08, "ratio", "derived"),
        "hit_rate_host": figure(None, "ratio", "not_observable"), "oldest_wait_s": figure(None, "seconds"),
    }  # fmt: skip
    return {
        "source": source, "labels": {"role": "both"}, "model": "tiny", "state": "connected", "at": "live", "epoch": 2,
        "since": "2026-01-01T00:00:00.000Z", "time": "2026-01-01T00:00:09.000Z", "verdict": verdict,
        "usable_blocks": 8, "block_size": 16, "bytes_per_block": 1024, "media": ["GPU"],
        "counts": {name: figure(0 if name == "unknown" else at, "blocks") for at, name in enumerate(STATES)},
        "figures": figures, "gaps": 0, "drops": 0, "bad_messages": 0, "findings": [], "num_findings": 0,
        "lately": [], **changed,
    }  # fmt: skip


def answer(*engines: dict[str, Any], sentence: str = "") -> dict[str, Any]:
    fleet = {"used_mean": figure(0.5, "ratio", "derived"), "running": figure(None, "requests", "derived")}
    return {"engines": list(engines), "fleet": {"figures": fleet, "worst": None, "fullest": None, "sentence": sentence}}


def show(backend: ScriptedBackend, mount: Mount, *engines: dict[str, Any], sentence: str = "", **data: Any) -> None:
    backend.answers["overview"] = answer(*engines, sentence=sentence)
    mount("overview", wait=False, overview=overview_words(), **{"source": None, **data})


def wait_for(page: Page, selector: str, text: str) -> None:
    page.wait_for_function("([s, t]) => inside('overview', s)?.textContent.trim() === t", arg=[selector, text])


def text(page: Page, selector: str) -> str:
    found: str = page.evaluate("s => inside('overview', s).textContent.trim()", selector)
    return found


def hidden(page: Page, selector: str) -> bool:
    return bool(page.evaluate("s => inside('overview', s).hidden", selector))


pytestmark = pytest.mark.browser


def test_one_engine_gets_its_verdict_with_evidence_that_leads_on(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    show(backend, mount, engine("demo", "warning", "queue"))
    wait_for(page, ".verdict .sentence", "A sentence on demo.")
    assert text(page, ".verdict .status") == "Look at it"
    assert page.evaluate("inside('overview', '[data-cause=queue]').dataset.is") == "cause"
    assert page.evaluate("inside('overview', '[data-cause=transfer]').dataset.is") == "unobservable"
    link = page.evaluate("inside('overview', '.evidence a').href")
    assert link == f"{backend.url}/?source=demo"
    assert text(page, ".evidence a b") == "3"
    assert text(page, ".unjudged summary") == "Not judged: 1"
    assert hidden(page, ".engines")


def test_every_row_has_a_number_or_says_why_not(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    show(backend, mount, engine("demo"))
    wait_for(page, "[data-figure=used] .value", "50.0%")
    assert text(page, "[data-figure=preemptions_per_finished] .value") == "0.08"
    assert text(page, "[data-figure=hit_rate_host] .value") == "not observable"
    assert text(page, "[data-figure=oldest_wait_s] .value") == "—"
    # Figures that the answer does not have at all, of every panel, are no numbers either.
    told = set(engine("demo")["figures"])
    shown = page.evaluate(
        "names => names.map(name => inside('overview', `.card:not([data-key=fleet]) [data-figure=${name}] .value`)"
        ".textContent)",
        sorted({row.figure for panel in PANELS for row in panel.rows} - told),
    )
    assert set(shown) == {"—"}
    page.evaluate("inside('overview', '[data-figure=oldest_wait_s]').focus()")
    assert "No value: Nobody waits." in page.evaluate("inside('overview', '.kx-tip').textContent")


def test_the_pool_is_told_in_blocks_tokens_and_bytes(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    show(backend, mount, engine("demo"))
    wait_for(page, "[data-figure=used] .value", "50.0%")
    rows = page.evaluate(
        "[...inside('overview', '.amounts tbody').rows].map(row => [...row.cells].map(cell => cell.textContent))"
    )
    assert rows == [
        ["referenced", "9", "144", "9.00 KiB"],
        ["cached", "3", "48", "3.00 KiB"],
        ["free or empty", "3", "48", "3.00 KiB"],
    ]


def test_several_engines_are_a_table_whose_rows_choose_and_lead_to_the_map(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    lost = engine("lost", "cannot_tell", figures={}, counts={}, usable_blocks=None, block_size=None, model="")
    show(backend, mount, engine("west", "critical", "kv"), lost, engine("east"), sentence="West is full.")
    wait_for(page, ".verdict .sentence", "A sentence on west.")
    sources = page.evaluate("[...inside('overview', '.engines tbody').rows].map(row => row.dataset.source)")
    assert sources == ["west", "lost", "east"]
    assert text(page, "tr[data-source=lost] .usage") == "—"
    assert text(page, ".uneven") == "West is full."
    assert page.evaluate("inside('overview', 'tr[data-source=east] a').href") == f"{backend.url}/?source=east"
    page.evaluate("inside('overview', 'tr[data-source=lost] button').click()")
    wait_for(page, ".verdict .sentence", "A sentence on lost.")
    assert page.evaluate("location.search") == "?source=lost"
    assert page.evaluate("toldStreamlit") == [["source", "lost"]], "the other pages begin with it"
    assert text(page, "[data-figure=used] .value") == "—"
    assert {page.evaluate(f"inside('overview', '[data-cause={key}]').dataset.is") for key in ("kv", "queue")} == {
        "unknown"
    }


def test_an_engines_name_stays_on_one_line_on_a_narrow_page(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    page.set_viewport_size({"width": 800, "height": 800})
    verdict = {**engine("west")["verdict"], "sentence": "Blocks are still held for requests that ended. " * 4}
    show(backend, mount, engine("west", verdict=verdict), engine("vllm-a", verdict=verdict))
    page.wait_for_function("inside('overview', '.engines tbody tr:nth-child(2)')")
    heights = page.evaluate(
        "[...inside('overview', '.engines tbody').querySelectorAll('.engine')].map(e => e.clientHeight)"
    )
    assert heights[0] == heights[1] > 0


def test_it_keeps_up_and_begins_with_the_source_of_the_address(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    show(backend, mount, engine("west", "critical"), engine("east"), source="east")
    wait_for(page, ".verdict .sentence", "A sentence on east.")
    backend.answers["overview"] = answer(engine("west"), engine("east", "warning", "kv", gaps=4))
    wait_for(page, "[data-key=health] [data-figure=gaps] .value", "4")
    assert text(page, ".verdict .status") == "Look at it"


def test_a_backend_that_does_not_answer_is_said_and_what_was_shown_stays(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    mount("overview", wait=False, overview=overview_words(), source=None)
    wait_for(page, ".trouble", "There is no such thing.")
    assert hidden(page, ".overview")
    backend.answers["overview"] = answer(engine("demo"))
    wait_for(page, ".verdict .sentence", "A sentence on demo.")
    assert hidden(page, ".trouble")
    del backend.answers["overview"]
    page.wait_for_function("!inside('overview', '.trouble').hidden")
    assert text(page, ".trouble").endswith("Trying again.")
    assert text(page, ".verdict .sentence") == "A sentence on demo."
    assert page.evaluate("inside('overview', '.overview').hasAttribute('data-old')")


def test_nobody_to_follow_is_said(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    show(backend, mount)
    page.wait_for_function("inside('overview', '.note b').textContent === 'No engine to follow yet'")
    assert hidden(page, ".overview")


def test_findings_are_links_to_their_moments(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    found = {
        "id": "f",
        "severity": "critical",
        "sentence": "<b>A leak.</b>",
        "time": "2026-01-01T00:00:00.000Z",
        "subjects": {"requests": []},
    }
    show(backend, mount, engine("demo", findings=[{**found, "kind": "leak", "epoch": 2, "seq1": 40}]))
    wait_for(page, "[data-key=findings] .sentence", "<b>A leak.</b>")
    assert page.evaluate("inside('overview', '[data-key=findings] a').href") == f"{backend.url}/?source=demo&at=2.40"
    assert hidden(page, "[data-key=findings] .note")
    assert not hidden(page, "[data-key=lately] .note")
    # Not of today: the day is told.
    assert text(page, "[data-key=findings] time") == "1 Jan 2026, 00:00:00"
    assert text(page, "[data-key=health] [data-figure=since] .value") == "1 Jan 2026, 00:00:00"


def test_of_thousands_of_findings_the_true_number_is_told(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    base = {"severity": "critical", "sentence": "A leak.", "time": "2026-01-01T00:00:00.000Z", "kind": "leak"}
    about = {"epoch": 2, "seq1": 40, "subjects": {"requests": []}}
    found = [{**base, **about, "id": f"f{at}"} for at in range(100)]
    leaky = engine("leaky", findings=found, num_findings=5000, looked_at="2026-01-01T00:00:09.000Z")
    show(backend, mount, leaky, engine("sound", findings=found[:1], num_findings=1))
    wait_for(page, "[data-key=findings] .panel-head span", "100 of 5,000 listed  ·  as of 00:00:09")
    numbers = "[...inside('overview', 'table tbody').children].map(row => row.textContent)"
    assert ["5,000" in row for row in page.evaluate(numbers)] == [True, False]
    page.evaluate("inside('overview', 'table tbody').children[1].click()")
    wait_for(page, "[data-key=findings] .panel-head span", "")


def test_an_unseen_page_asks_for_nothing_and_a_page_left_neither(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    show(backend, mount, engine("demo"))
    wait_for(page, ".verdict .sentence", "A sentence on demo.")
    page.evaluate("""() => {
        Object.defineProperty(document, "hidden", { value: true, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }""")
    page.wait_for_timeout(700)  # what was on its way has come
    asked = len(backend.asked)
    page.wait_for_timeout(1500)  # longer than the pause between two questions
    assert len(backend.asked) == asked
    page.evaluate("""() => {
        Object.defineProperty(document, "hidden", { value: false, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }""")
    page.evaluate("unmount('overview')")
    page.wait_for_timeout(700)
    asked = len(backend.asked)
    page.wait_for_timeout(1500)
    assert len(backend.asked) == asked


def test_the_past_is_asked_for_once_and_links_keep_to_it(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    page.evaluate("history.replaceState(null, '', '?at=2.40')")
    show(backend, mount, engine("demo", at="2.40"))
    wait_for(page, ".verdict .sentence", "A sentence on demo.")
    assert page.evaluate("inside('overview', '.evidence a').href") == f"{backend.url}/?source=demo&at=2.40"
    assert "as of 1 Jan 2026, 00:00:09" in text(page, ".whose")
    assert text(page, ".past") == "Past Everything is as it was at 2.40. Back to the present"
    assert page.evaluate("inside('overview', '.past a').href") == f"{backend.url}/"
    page.wait_for_timeout(1500)
    assert backend.asked.count("overview") == 1


class Answering:
    """Stands in for the client."""

    def __init__(self) -> None:
        self.names = ["demo"]
        self.failing = False

    def sources(self) -> list[dict[str, Any]]:
        if self.failing:
            raise BackendError("The backend does not answer.")
        return [{"source": name, "epochs": []} for name in self.names]


@pytest.mark.parametrize(("names", "failing"), [(["demo"], False), ([], True), ([], False)])
def test_the_page_draws_itself_whatever_the_backend_says(
    monkeypatch: pytest.MonkeyPatch, names: list[str], failing: bool
) -> None:
    answering = Answering()
    answering.names, answering.failing = names, failing
    monkeypatch.setattr(client_module, "_shared", lambda url, token: answering)

    def script() -> None:
        from kvxray_app.views.overview import overview

        overview()

    drawn = AppTest.from_function(script, default_timeout=90).run()
    assert not drawn.exception
    told = "".join(element.proto.body for element in drawn.get("html"))
    assert ("No engine to follow yet" in told) == (not names and not failing)


def test_panels_have_keys_and_titles_of_their_own() -> None:
    panels = [*PANELS, FLEET]
    assert len({panel.key for panel in panels}) == len({panel.title for panel in panels}) == len(panels)


def test_what_metrics_tell_leads_to_the_page_of_signals(page: Page, backend: ScriptedBackend, mount: Mount) -> None:
    told = {"used": figure(0.5, "ratio", "derived"), "affinity_lost": figure(None, "ratio", "not_observable")}
    router = engine(
        "router", kind="metrics", state="no_stream", figures={"affinity_lost": figure(0.25, "ratio", "derived")}
    )
    show(backend, mount, engine("e", kind="metrics", state="no_stream", figures=told), router, source="e")
    wait_for(page, "[data-key=latency] .link", "Signals")
    assert page.evaluate("inside('overview', '[data-key=usage] .link').href").endswith("/signals?source=e")
    assert text(page, "[data-key=health] [data-figure=stream] .value") == "none, metrics only"
    assert text(page, "[data-key=fleet] [data-figure=affinity_lost] .value") == "25.0%"


def test_an_engine_that_tells_of_hashes_has_its_usage_on_the_live_page(
    page: Page, backend: ScriptedBackend, mount: Mount
) -> None:
    show(backend, mount, engine("e", kind="hashes"))
    wait_for(page, "[data-key=usage] .link", "Map")
    assert text(page, "[data-key=hits] .link") == "Signals"
