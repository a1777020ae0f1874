"""The pages as Streamlit draws them, with a backend that answers from this file."""

from __future__ import annotations

from datetime import UTC
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from kvxray_app import client as client_module
from kvxray_app.client import BackendError
from kvxray_app.formats import moment, span, zone_offset
from kvxray_app.markup import definitions, plain
from kvxray_app.source_choice import KEPT
from streamlit.testing.v1 import AppTest


class AnsweringBackend:
    """Stands in for the client: the same methods, answers from attributes."""

    def __init__(self) -> None:
        self.names = ["demo"]
        self.failing = False
        self.told: list[dict[str, Any]] = []

    def sources(self) -> list[dict[str, Any]]:
        if self.failing:
            raise BackendError("The backend does not answer.")
        return [{"source": name, "epochs": [epoch(1, ended=True), epoch(2)]} for name in self.names]

    def health(self) -> dict[str, Any]:
        return {"database": {"stored_events": 264_369, "failed": None}}

    def findings(self, source: str, limit: int, state: str = "all", kind: str | None = None) -> dict[str, Any]:
        fit = [found for found in self.told if state in ("all", found["state"]) and kind in (None, found["kind"])]
        return {"findings": fit[:limit], "total": len(fit)}

    def events(self, source: str, limit: int, first: str | None = None) -> dict[str, Any]:
        assert first is not None
        epoch, start = (int(part) for part in first.split("."))
        return {"events": [event(epoch, at) for at in range(start, min(start + limit, 100))], "next": None}


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> AnsweringBackend:
    answering = AnsweringBackend()
    monkeypatch.setattr(client_module, "_shared", lambda url, token: answering)
    return answering


def history_page() -> AppTest:
    def script() -> None:
        from kvxray_app.views.history import history

        history()

    page = AppTest.from_function(script, default_timeout=90).run()
    assert not page.exception
    return page


@pytest.mark.usefixtures("backend")
def test_history_tells_epochs_and_events_newest_first() -> None:
    page = history_page()
    epochs, events = (table.value for table in page.dataframe)
    assert list(epochs["Epoch"]) == [2, 1]
    assert list(epochs["Ended"]) == ["goes on", "2026-01-01 00:30:00"]
    assert page.caption[0].value.endswith("Times are in UTC.")
    assert list(events["Event"])[:2] == ["2.99", "2.98"]
    assert len(events) == 100
    assert [metric.value for metric in page.metric] == ["264,369", "2", "0", "0"]


def test_history_says_that_stored_events_are_those_of_all_sources(backend: AnsweringBackend) -> None:
    assert history_page().metric[0].label == "Stored events"
    backend.names = ["demo", "vllm"]
    assert history_page().metric[0].label == "Stored events, all sources"


def test_history_filters_findings_and_escapes_their_sentences(backend: AnsweringBackend) -> None:
    backend.told = [finding("open", "Request *a* [b](c) holds 3 blocks."), finding("ended", "12 messages were lost.")]
    page = history_page()
    texts = [markdown.value for markdown in page.markdown]
    assert r"Request \*a\* \[b\]\(c\) holds 3 blocks\." in texts
    assert r"12 messages were lost\." in texts
    page.segmented_control[0].set_value("Ended").run()
    assert not any("holds" in markdown.value for markdown in page.markdown)


def test_history_says_how_many_findings_there_are_and_how_many_it_lists(backend: AnsweringBackend) -> None:
    gap = {**finding("ended", "12 messages were lost."), "kind": "gap"}
    backend.told = [finding("open", f"Request {number} holds 3 blocks.") for number in range(1200)] + [gap] * 3
    page = history_page()
    assert [metric.value for metric in page.metric][2:] == ["1,200", "3"]
    assert "The newest 100 of 1,203 are listed." in [caption.value for caption in page.caption]
    assert sum("holds 3 blocks" in markdown.value for markdown in page.markdown) == 100
    page.segmented_control[0].set_value("Ended").run()
    assert not any(" are listed." in caption.value for caption in page.caption)
    assert sum("were lost" in markdown.value for markdown in page.markdown) == 3


def test_history_without_sources_says_what_to_do(backend: AnsweringBackend) -> None:
    backend.names = []
    page = history_page()
    assert not page.dataframe
    assert "No engine to follow yet" in html_of(page)


def test_live_page_without_sources_says_what_to_do(backend: AnsweringBackend) -> None:
    def script() -> None:
        from kvxray_app.views.live import live

        live()

    backend.names = []
    page = AppTest.from_function(script, default_timeout=90).run()
    assert not page.exception
    assert "kvxray serve --source NAME=EVENTS,REPLAY" in html_of(page)


@pytest.mark.usefixtures("backend")
def test_history_pages_back_and_forth_through_an_epoch() -> None:
    page = history_page()
    page.selectbox[0].set_value(1).run()
    assert list(page.dataframe[1].value["Event"])[:2] == ["1.99", "1.98"]
    older, newest = (next(b for b in page.button if b.label == label) for label in ("Older", "Newest"))
    assert older.disabled
    assert newest.disabled
    assert "Events 1.0 to 1.99, newest first." in [caption.value for caption in page.caption]


def test_history_finds_events_by_kind_request_and_block(backend: AnsweringBackend) -> None:
    page = history_page()
    page.text_input[1].set_value("7").run()
    assert list(page.dataframe[1].value["Event"]) == ["2.57", "2.7"]
    page.text_input[1].set_value("seven").run()
    assert [warning.value for warning in page.warning] == ["Write the block as its number, such as 12."]
    page.text_input[1].set_value("").run()
    page.text_input[0].set_value("agent-9").run()
    assert len(page.dataframe) == 1
    assert any("0 of the events 2.0 to 2.99 fit." in caption.value for caption in page.caption)


def test_history_without_backend_is_one_sentence(backend: AnsweringBackend) -> None:
    backend.failing = True
    assert [error.value for error in history_page().error] == ["The backend does not answer."]


@pytest.mark.parametrize("failing", [False, True])
def test_live_page_draws_itself_whatever_the_backend_says(backend: AnsweringBackend, failing: bool) -> None:
    def script() -> None:
        from kvxray_app.views.live import live

        live()

    backend.failing = failing
    page = AppTest.from_function(script, default_timeout=90).run()
    assert not page.exception
    assert not page.segmented_control


@pytest.mark.parametrize(("failing", "names"), [(False, ["demo"]), (True, ["demo"]), (False, [])])
def test_timelines_draw_themselves_whatever_the_backend_says(
    backend: AnsweringBackend, failing: bool, names: list[str]
) -> None:
    def script() -> None:
        from kvxray_app.views.timelines import timelines_page

        timelines_page()

    backend.failing, backend.names = failing, names
    page = AppTest.from_function(script, default_timeout=90).run()
    assert not page.exception
    assert ("No engine to follow yet" in html_of(page)) == (not names)


def test_switch_appears_only_when_there_is_a_choice_of_sources(backend: AnsweringBackend) -> None:
    backend.names = ["demo", "other"]
    page = history_page()
    assert page.segmented_control[0].value == "demo"
    page.segmented_control[0].set_value("other").run()
    assert page.query_params["source"] in ("other", ["other"])


def test_the_source_goes_along_from_page_to_page_and_the_address_is_written_by_a_choice_alone(
    backend: AnsweringBackend,
) -> None:
    backend.names = ["demo", "other"]
    page = history_page()
    assert "source" not in page.query_params, "a page that writes its address on arrival catches whoever goes back"
    elsewhere = AppTest.from_function(_timelines, default_timeout=90)
    elsewhere.session_state[KEPT] = "other"
    assert elsewhere.run().segmented_control[0].value == "other"


def test_what_is_chosen_in_a_component_goes_along_too(backend: AnsweringBackend) -> None:
    backend.names = ["demo", "other"]
    page = AppTest.from_function(_keeping_the_other, default_timeout=90).run()
    assert page.segmented_control[0].value == "other"


def _keeping_the_other() -> None:
    from kvxray_app.source_choice import keep_source
    from kvxray_app.views.timelines import timelines_page

    keep_source("other")
    timelines_page()


def _timelines() -> None:
    from kvxray_app.views.timelines import timelines_page

    timelines_page()


def test_guide_draws_itself() -> None:
    def script() -> None:
        from kvxray_app.views.guide import guide

        guide()

    assert not AppTest.from_function(script, default_timeout=90).run().exception


def test_plain_text_stays_plain() -> None:
    assert plain("a_b *c*\n:red[d] $x$") == r"a\_b \*c\* \:red\[d\] \$x\$"
    assert "<script>" not in definitions("t", {"<script>": "<b>"})


def test_times_are_written_in_the_readers_zone_and_open_ends_count_to_now() -> None:
    assert moment("2026-01-01T01:00:00.5+01:00") == "2026-01-01 00:00:00"
    assert moment("2026-07-01T01:00:00.5Z", ZoneInfo("Europe/Berlin"), milliseconds=True) == "2026-07-01 03:00:00.500"
    winter, summer = "2026-01-01T00:00:00Z", "2026-07-01T00:00:00Z"
    assert [zone_offset(at, ZoneInfo("Europe/Berlin")) for at in (winter, summer)] == ["UTC+1", "UTC+2"]
    assert zone_offset(winter, ZoneInfo("America/St_Johns")) == "UTC-3:30"
    assert zone_offset(None, UTC) == "UTC"
    assert moment(None) == "\u2014"
    assert span("2026-01-01T00:00:00Z", "2026-01-01T00:30:00Z") == "30 min 0 s"
    assert span("2026-01-01T00:00:00Z", None).endswith("min")


def html_of(page: AppTest) -> str:
    return " ".join(block.body for block in page.get("html"))


def event(epoch: int, number: int) -> dict[str, Any]:
    base = {"seq": f"{epoch}.{number}", "time": "2026-01-01T00:00:00Z", "step": 1, "kind": "BlockAllocated"}
    return base | {"cause": "none", "block_id": number % 50, "request_id": None, "value": None, "a0": 0, "a1": 0}


def epoch(number: int, ended: bool = False) -> dict[str, Any]:
    return {
        "epoch": number,
        "started_at": "2026-01-01T00:00:00Z",
        "ended_at": "2026-01-01T00:30:00Z" if ended else None,
        "first_seq": f"{number}.0",
        "last_seq": f"{number}.99",
        "unfinished_import": False,
    }


def finding(state: str, sentence: str) -> dict[str, Any]:
    return {
        "kind": "leak",
        "severity": "critical",
        "state": state,
        "time": "2026-01-01T00:00:00Z",
        "ended_at": "2026-01-01T00:00:02Z" if state == "ended" else None,
        "epoch": 2,
        "seq0": 7,
        "sentence": sentence,
    }
