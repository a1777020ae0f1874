"""Alerts of an engine of others, a recorded vLLM server over real sockets, that is attached and removed meanwhile."""

from __future__ import annotations

import pytest
from kvxray_backend.alerts import alert_book
from kvxray_backend.alerts.alert_book import NOT_WATCHED
from kvxray_storage.alerts import Wanted, alerts

from tests.backend.served import backend_of, serving, until
from tests.e2e.recorded_engine import recorded_engine

OWN = """
rules:
  - name: IsRead
    sentence: Its cache is told.
    when:
      - {now: kv_usage, above: -1}
  - name: Reset
    sentence: Its cache was emptied, or it is followed from the middle.
    when:
      - {finding: [joined_midstream, seq_gap]}
"""


@pytest.fixture
def watched(tmp_path, monkeypatch):
    """A recorded engine, and a server that watches it as somebody attached it on the page."""
    monkeypatch.setattr(alert_book, "GONE_AFTER_S", 1.0)
    own = tmp_path / "rules.yaml"
    own.write_text(OWN)
    with recorded_engine() as engine, serving(tmp_path, rules=(own,)) as http:
        attach(http, engine)
        yield http, engine


def attach(http, engine):
    # Nobody answers replay there, so what was told before is not known.
    told = {"name": "vllm", "make": "vllm", "events": engine.events, "metrics": engine.metrics}
    assert http.post("/api/engines", json=told).status_code == 201


def remove(http):
    assert http.delete("/api/engines/vllm").status_code == 204


def fires(http, rule):
    backend_of(http).alerts.look()
    listed = http.get("/api/alerts", params={"state": "active", "rule": rule}).json()["alerts"]
    return listed[0]["alert"] if listed else None


def ended(http, rule):
    backend_of(http).alerts.look()
    listed = http.get("/api/alerts", params={"state": "over", "rule": rule}).json()["alerts"]
    return [one["alert"] for one in listed]


def test_what_fires_for_an_engine_ends_when_it_is_removed_and_fires_anew_when_it_is_attached(watched):
    http, engine = watched
    first = until(lambda: fires(http, "IsRead"))
    assert (first["engine"], first["labels"]["make"]) == ("vllm", "vllm")
    remove(http)
    [over] = until(lambda: ended(http, "IsRead"))
    assert (over["id"], over["over_because"]) == (first["id"], NOT_WATCHED)
    assert http.get(f"/api/alerts/{first['id']}").json()["alert"]["state"] == "over"
    attach(http, engine)
    again = until(lambda: fires(http, "IsRead"))
    assert again["id"] != first["id"]
    assert len(ended(http, "IsRead")) == 1


def test_an_engine_that_is_described_anew_at_once_goes_on_firing(watched, monkeypatch):
    monkeypatch.setattr(alert_book, "GONE_AFTER_S", 3_600.0)
    http, engine = watched
    first = until(lambda: fires(http, "IsRead"))
    remove(http)
    backend_of(http).alerts.look()
    attach(http, engine)
    until(lambda: fires(http, "IsRead") and backend_of(http).alerts.state_of("IsRead", "vllm").unknown_since_s is None)
    assert fires(http, "IsRead")["id"] == first["id"]
    assert ended(http, "IsRead") == []


def test_a_finding_of_its_events_leads_to_the_moment_also_after_it_was_removed(watched):
    http, engine = watched
    engine.rig.wait_for_subscriber()
    engine.go_on(10)
    engine.rig.next_seq += 3
    engine.go_on(10)
    fired = until(lambda: fires(http, "Reset"))
    assert fired["findings"][0]["kind"] in ("joined_midstream", "seq_gap")
    assert fired["moment"]["at"].startswith("1.")
    remove(http)
    until(lambda: ended(http, "Reset"))
    told = http.get("/api/residency", params={"source": fired["moment"]["source"], "at": fired["moment"]["at"]})
    assert told.status_code == 200, told.json()
    tried = http.post("/api/rules/try", json={"name": "Reset", "from": "1h"}).json()
    assert [one["engine"] for one in tried["fired"]] == ["vllm"]
    assert backend_of(http).log.flush(10)
    rows = alerts(backend_of(http).database, Wanted(rule="Reset"), 9)
    assert [(row.id, row.state) for row in rows] == [(fired["id"], "over")]
