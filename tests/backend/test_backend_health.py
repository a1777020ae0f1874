"""How the backend says that it is well or not, and how it begins and ends."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from kvxray_engine.errors import UserError
from kvxray_storage.event_log import EventLog

from tests.backend.served import backend_of, caught_up, serving, source_of, until
from tests.backend.small_engine import SmallEngine


def test_health_says_how_the_backend_is(client: TestClient, engine: SmallEngine) -> None:
    engine.work(10)
    caught_up(client, engine)
    until(lambda: client.get("/api/health").json()["database"]["stored_events"] == engine.recorder.next_seq)
    told = client.get("/api/health").json()
    assert (told["status"], told["sources"], told["viewers"]) == ("ok", 1, 0)
    assert told["database"]["url_scheme"] == "sqlite"
    assert told["database"]["failed"] is None
    assert told["uptime_s"] > 0


def test_health_is_degraded_while_the_database_refuses(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = "The disk is full; make room and kvxray goes on."
    monkeypatch.setattr(EventLog, "failed", property(lambda _: sentence))
    told = client.get("/api/health").json()
    assert (told["status"], told["database"]["failed"]) == ("degraded", sentence)


def test_a_database_file_that_is_removed_is_said(
    client: TestClient, engine: SmallEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvxray_storage.file_watch.LOOK_EVERY_S", 0.0)
    engine.work(3)
    caught_up(client, engine)
    (tmp_path / "kvxray.db").unlink()
    engine.work(3)
    until(lambda: client.get("/api/health").json()["status"] == "degraded")
    assert "was removed while kvxray was running" in client.get("/api/health").json()["database"]["failed"]
    backend_of(client).log.close(0.1)


def test_a_database_that_cannot_be_read_is_one_sentence(client: TestClient, tmp_path: Path) -> None:
    database = backend_of(client).database
    with database.writing() as connection:
        connection.exec_driver_sql("ALTER TABLE chunk RENAME TO elsewhere")
        connection.exec_driver_sql("ALTER TABLE finding RENAME TO elsewhere_too")
    answer = client.get("/api/findings")
    assert answer.status_code == 503
    assert answer.json() == {"error": "The event log cannot be read just now; /api/health tells how it is."}
    with database.writing() as connection:
        connection.exec_driver_sql("ALTER TABLE elsewhere RENAME TO chunk")
        connection.exec_driver_sql("ALTER TABLE elsewhere_too RENAME TO finding")


def test_stopping_the_app_leaves_no_thread(engine: SmallEngine, tmp_path: Path) -> None:
    before = {thread.name for thread in threading.enumerate()}
    with serving(tmp_path, source_of(engine)) as client:
        engine.work(3)
        caught_up(client, engine)
    left = {thread.name for thread in threading.enumerate() if "kvxray" in thread.name} - before
    assert left == set()


def test_history_survives_a_restart_of_the_backend(tmp_path: Path) -> None:
    with SmallEngine() as engine:
        with serving(tmp_path, source_of(engine)) as client:
            engine.work(20)
            caught_up(client, engine)
            before = client.get("/api/events?from=1.0&limit=1000").json()
        with serving(tmp_path, source_of(engine)) as client:
            caught_up(client, engine)
            assert client.get("/api/events?from=1.0&limit=1000").json() == before
            assert client.get("/api/sources").json()["sources"][0]["epoch"] == 1
        address = source_of(engine)
    with serving(tmp_path, address) as client:
        (source,) = client.get("/api/sources").json()["sources"]
        assert (source["state"], source["epoch"]) == ("waiting", None)
        assert [epoch["epoch"] for epoch in source["epochs"]] == [1]
        assert client.get("/api/events?from=1.0&limit=1000").json() == before
        assert client.get("/api/events?limit=5").json()["events"] == before["events"][-5:]


def test_an_engine_that_comes_back_at_its_address_is_a_new_epoch(tmp_path: Path) -> None:
    with SmallEngine() as engine:
        address = source_of(engine)
        with serving(tmp_path, address) as client:
            engine.work(20)
            caught_up(client, engine)
            engine.publisher.close()
            with SmallEngine(events=address["events"], replay=address["replay"], seed=9) as successor:
                successor.work(20)
                until(lambda: backend_of(client).sources["engine"].live.epoch == 2)
                caught_up(client, successor)
                (source,) = client.get("/api/sources").json()["sources"]
                assert [epoch["epoch"] for epoch in source["epochs"]] == [1, 2]
                assert source["epochs"][0]["ended_at"] is not None
                until(lambda: "restart" in kinds_of(client.get("/api/findings").json()["findings"]))
                assert client.get("/api/events?from=1.0&limit=5").json()["events"][0]["seq"] == "1.0"
                assert client.get("/api/events?limit=5").json()["next"] == f"2.{successor.recorder.next_seq}"


def kinds_of(findings: list[dict]) -> set[str]:
    return {finding["kind"] for finding in findings}


def test_what_keeps_the_backend_from_starting_is_said_before_the_server_runs(tmp_path: Path) -> None:
    (tmp_path / "kvxray.db").write_bytes(b"this is no database" * 100)
    with pytest.raises(UserError), serving(tmp_path):
        pass
