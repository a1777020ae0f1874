"""The watch over a real engine: a leak fires, is told with its moment and owner, and ends; restarts take over."""

from __future__ import annotations

import pytest
from kvxray_backend.alerts.alert_book import NOT_WATCHED, RULE_OFF

from tests.backend.served import backend_of, caught_up, serving, source_of, until
from tests.backend.small_engine import SmallEngine


def leak(engine):
    """One request that leaks, and one that does not."""
    engine.add("culprit", prompt=100, output=50)
    engine.step(3)
    engine.abort("culprit")
    engine.finish()
    engine.work(40)


def firing(http, rule="LeakNamed"):
    backend_of(http).alerts.look()
    listed = http.get("/api/alerts", params={"state": "active", "rule": rule}).json()["alerts"]
    return listed[0] if listed else None


def test_a_leak_fires_and_names_its_owner_and_moment(tmp_path):
    with SmallEngine(leak=True) as engine, serving(tmp_path, source_of(engine)) as http:
        caught_up(http, engine)
        leak(engine)
        told = until(lambda: engine.work(2) or firing(http))
        alert = told["alert"]
        assert (alert["rule"], alert["engine"], alert["state"], alert["severity"]) == (
            "LeakNamed", "engine", "firing", "warning",
        )  # fmt: skip
        assert "culprit" in alert["culprit"]
        assert alert["findings"][0]["subjects"]["requests"] == ["culprit"]
        state = http.get("/api/state", params={"at": alert["moment"]["at"]})
        assert state.status_code == 200
        assert state.json()["figures"]["leaked"]["value"] > 0
        assert told["link"] == f"./?source=engine&at={alert['moment']['at']}&mark={alert['id']}"
