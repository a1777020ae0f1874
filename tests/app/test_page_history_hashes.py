"""The history of an engine that is watched from outside: its events by hash, and none where it tells none."""

from __future__ import annotations

from typing import Any

import pytest
from kvxray_app import client as client_module
from streamlit.testing.v1 import AppTest

from tests.app.test_page_views import AnsweringBackend, epoch, event, history_page


class WatchedEngine(AnsweringBackend):
    """Of 300 batches, each of one hash stored; the last removed it again."""

    kind = "hashes"

    def sources(self) -> list[dict[str, Any]]:
        told = epoch(1) | {"first_seq": "1.0", "last_seq": f"1.{299 << 20}"}
        return [{"source": name, "kind": self.kind, "epochs": [told]} for name in self.names]

    def events(self, source: str, limit: int, first: str | None = None, at: str | None = None) -> dict[str, Any]:
        assert at is not None
        last = int(at.partition(".")[2]) >> 20
        told = [self.stored(batch) for batch in range(min(last, 299) + 1)]
        return {"events": told[-limit:], "next": None}

    def stored(self, batch: int) -> dict[str, Any]:
        kind = "ResidencyRemoved" if batch == 299 else "ResidencyStored"
        hash, parent = f"{batch:064x}", f"{batch - 1:064x}" if batch else None
        more = {"kind": kind, "cause": "store", "hash": hash, "parent": parent, "medium": "GPU", "group": 0}
        return event(1, batch << 20) | more | {"block_id": None}


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> WatchedEngine:
    answering = WatchedEngine()
    monkeypatch.setattr(client_module, "_shared", lambda url, token: answering)
    return answering


def captions(page: AppTest) -> list[str]:
    return [caption.value for caption in page.caption]


@pytest.mark.usefixtures("engine")
def test_events_are_listed_by_hash_newest_first_page_by_page() -> None:
    page = history_page()
    events = page.dataframe[1].value
    assert list(events.columns) == ["Event", "Time", "Kind", "Hash", "Where and why"]
    assert list(events["Kind"])[:2] == ["ResidencyRemoved", "ResidencyStored"]
    assert events["Hash"][0] == f"{299:064x}"
    assert events["Where and why"][0] == "store · after 00000000…012a · GPU · group 0"
    assert len(events) == 200
    next(button for button in page.button if button.label == "Older").click().run()
    assert not page.exception
    older = page.dataframe[1].value
    assert len(older) == 100
    assert older["Hash"][0] == f"{99:064x}"
    assert next(button for button in page.button if button.label == "Older").disabled
    next(button for button in page.button if button.label == "Newest").click().run()
    assert page.dataframe[1].value["Hash"][0] == f"{299:064x}"


@pytest.mark.usefixtures("engine")
def test_events_are_found_by_kind_and_by_part_of_a_hash() -> None:
    page = history_page()
    page.text_input[0].set_value("00012B").run()
    assert list(page.dataframe[1].value["Kind"]) == ["ResidencyRemoved"]
    page.text_input[0].set_value("nobody").run()
    assert len(page.dataframe) == 1
    assert any("fits." in caption for caption in captions(page))


def test_an_engine_that_tells_no_events_says_where_its_metrics_are(engine: WatchedEngine) -> None:
    engine.kind = "metrics"
    page = history_page()
    assert any("page Signals" in info.value for info in page.info)
    assert not page.multiselect


def test_many_sources_are_a_list_to_search(engine: WatchedEngine) -> None:
    engine.names = [f"gpu-{at}" for at in range(40)]
    page = history_page()
    assert not [control for control in page.segmented_control if control.key == "source-choice"]
    chosen = next(box for box in page.selectbox if box.key == "source-list")
    assert chosen.value == "gpu-0"
    chosen.set_value("gpu-39").run()
    assert page.query_params["source"] in ("gpu-39", ["gpu-39"])


@pytest.mark.parametrize("kind", ["hashes", "metrics"])
@pytest.mark.parametrize("view", ["live", "timelines"])
def test_pages_draw_themselves_for_engines_of_every_kind(engine: WatchedEngine, kind: str, view: str) -> None:
    def script(view: str) -> None:
        from kvxray_app.views.live import live
        from kvxray_app.views.timelines import timelines_page

        {"live": live, "timelines": timelines_page}[view]()

    engine.kind = kind
    page = AppTest.from_function(script, default_timeout=90, kwargs={"view": view}).run()
    assert not page.exception
    assert not page.error
