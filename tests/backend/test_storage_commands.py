"""`kvxray storage` and `kvxray replay` as people call them, beside a kvxray that writes and without one."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx2
import pytest
import sqlalchemy as sa
from kvxray_backend.cli import main
from kvxray_backend.quantities import age_text, parse_age, parse_size, size_text
from kvxray_backend.retention_rules import retention_of
from kvxray_backend.settings import load_settings
from kvxray_engine.errors import UserError
from kvxray_storage.database import open_database
from kvxray_storage.event_log import EventLog
from kvxray_storage.fold_rows import TABLES
from kvxray_storage.retention import Limits

from tests.backend.served import backend_of, caught_up, serving, source_of, until
from tests.backend.small_engine import SmallEngine


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("KVXRAY_") and name != "KVXRAY_CACHE_DIR"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("KVXRAY_DATA_DIR", str(tmp_path))


@pytest.fixture
def stored(tmp_path: Path) -> dict[str, Any]:
    """An event log that a small engine filled, and what was told live at two moments of it."""
    with SmallEngine(leak=True) as engine, serving(tmp_path, source_of(engine)) as client:
        told = {}
        for _ in range(2):
            engine.work(20)
            caught_up(client, engine)
            told[client.get("/api/state").json()["seq"]] = pictured(client.get)
        assert backend_of(client).log.flush(10)
    return told


def pictured(get: Any, **at: str) -> dict[str, Any]:
    """What one moment is said to be, less what depends on since when it is known."""
    state = get("/api/state", params=at).json()
    counts = {name: figure["value"] for name, figure in state["counts"].items()}
    requests = get("/api/requests", params={"limit": 1000, **at}).json()["requests"]
    blocks = [get(f"/api/blocks/{block}", params={"history": 0, **at}).json() for block in range(1, 20)]
    return {
        "seq": state["seq"], "time": state["time"], "counts": counts,
        "requests": sorted((row["request_id"], row["status"], row["blocks"]) for row in requests),
        "blocks": [(block["state"], block["ref_cnt"]["value"], block["block_hash"]) for block in blocks],
    }  # fmt: skip


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(arguments) == code
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one sentence of a command that must be refused with exit code 2."""
    try:
        code = main(arguments)
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    told = capsys.readouterr().err
    assert code == 2, told
    assert told.count("\n") == 1, told
    return told


def test_stats_say_what_is_stored(stored: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(said(capsys, "storage", "stats", "--json"))
    [epoch] = found["epochs"]
    assert epoch["source"] == "engine"
    assert f"1.{epoch['last_seq']}" == max(stored, key=lambda moment: int(moment.split(".")[1]))
    assert epoch["events"] == epoch["last_seq"] + 1 - epoch["first_seq"]
    assert epoch["bytes_per_event"] > 1
    text = said(capsys, "storage", "stats", "--source", "engine")
    assert "engine, epoch 1: started 20" in text
    assert re.search(rf"events +{epoch['events']:,} \(1\.\d+ to 1\.\d+\), [\d.]+ bytes each", text)
    assert "no source 'nobody'; there are: engine" in refused(capsys, "storage", "stats", "--source", "nobody")


def test_to_look_at_a_database_does_not_make_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for part in ("stats", "verify", "rebuild", "prune"):
        assert "There is no database at" in refused(capsys, "storage", part)
    assert list(tmp_path.iterdir()) == []


def test_verify_names_a_flipped_byte(
    stored: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said(capsys, "storage", "verify").endswith("all is well\n")
    database = sqlite3.connect(tmp_path / "kvxray.db")
    [(wire_seq0, data)] = database.execute("SELECT wire_seq0, data FROM chunk ORDER BY num_events DESC LIMIT 1")
    changed = bytearray(data)
    changed[len(changed) // 2] ^= 4
    database.execute("UPDATE chunk SET data = ? WHERE wire_seq0 = ?", (bytes(changed), wire_seq0))
    database.commit()
    database.close()
    text = said(capsys, "storage", "verify", code=1)
    assert f"chunk: epoch 1 of engine, messages {wire_seq0} to " in text
    assert text.endswith("\n1 problem\n")
    found = json.loads(said(capsys, "storage", "verify", "--json", code=1))
    assert (len(found["problems"]), found["num_problems"], found["not_checked"]) == (1, 1, [])
    assert found["checked"]["chunk"] > 0


def test_prune_says_first_and_does_then(stored: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    before = json.loads(said(capsys, "storage", "stats", "--json"))["epochs"][0]
    assert "nothing to prune" in said(capsys, "storage", "prune", "--dry-run")
    # Nobody follows it now, so that it may go whole.
    plan = json.loads(said(capsys, "storage", "prune", "--dry-run", "--json", "--age", "1s"))
    until(lambda: "all of it" in said(capsys, "storage", "prune", "--dry-run", "--age", "1s"))
    assert plan["dry_run"]
    assert json.loads(said(capsys, "storage", "stats", "--json"))["epochs"][0]["events"] == before["events"]
    text = said(capsys, "storage", "prune", "--age", "1s", "--compact")
    assert f"engine, epoch 1: all of it: {before['events']:,} events" in text
    after = json.loads(said(capsys, "storage", "stats", "--json"))["epochs"][0]
    assert (after["events"], after["pruned_events"], after["chunks"]) == (0, before["events"], 0)
    assert said(capsys, "storage", "verify").endswith("all is well\n")


def test_prune_of_one_source_leaves_the_others(
    stored: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "all.kvx"
    said(capsys, "storage", "export", str(file))
    said(capsys, "storage", "import", str(file), "--as", "copy")
    before = {epoch["source"]: epoch for epoch in stats_of(capsys)}
    # What was imported is kept until somebody says otherwise.
    kept = "kept of copy: events of unlimited, unlimited in all"
    assert kept in said(capsys, "storage", "prune", "--source", "copy")
    until(lambda: "all of it" in said(capsys, "storage", "prune", "--dry-run", "--age", "1s", "--source", "engine"))
    text = said(capsys, "storage", "prune", "--age", "1s", "--source", "copy")
    assert "copy, epoch 1: all of it" in text
    assert "engine" not in text
    after = {epoch["source"]: epoch for epoch in stats_of(capsys)}
    assert (after["copy"]["events"], after["copy"]["pruned_events"]) == (0, before["copy"]["events"])
    assert after["engine"] == before["engine"]
    # What a size takes of it is its own, however much room the whole database has.
    chosen = ("storage", "prune", "--source", "engine", "--age", "none", "--size", "32MB")
    assert "kept of engine: events of unlimited, 32 MB in all" in said(capsys, *chosen)
    assert "no source 'nobody'; there are: engine, copy" in refused(capsys, "storage", "prune", "--source", "nobody")


def stats_of(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(said(capsys, "storage", "stats", "--json"))["epochs"]
    return found


def test_bad_quantities_and_moments_are_one_sentence(
    stored: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "'7 apples' is not an age such as 7d" in refused(capsys, "storage", "prune", "--age", "7 apples")
    assert "give it at least 32MB" in refused(capsys, "storage", "prune", "--size", "1KB")
    assert "Write the moment as" in refused(capsys, "storage", "export", "x.kvx", "--from", "yesterday")
    assert "Nothing is stored of that" in refused(capsys, "storage", "export", "x.kvx", "--from", "9.1")
    assert "cannot be written" in refused(capsys, "storage", "export", "/nowhere/x.kvx")
    assert "change --as" in refused(capsys, "storage", "import", "x.kvx", "--as", "a b")
    assert "required: PART" in refused(capsys, "storage")


def test_what_writes_waits_for_a_running_kvxray_and_what_reads_does_not(
    stored: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "beside.kvx"
    database = open_database(f"sqlite:///{tmp_path / 'kvxray.db'}")
    with EventLog(database):
        for arguments in (["stats"], ["verify"], ["export", str(file)], ["prune", "--dry-run"]):
            said(capsys, "storage", *arguments)
        for arguments in (["prune"], ["rebuild"], ["import", str(file), "--as", "copy"]):
            assert "Another kvxray already writes" in refused(capsys, "storage", *arguments)
    database.close()
    assert "engine, epoch 1: keyframes and rollups made anew" in said(capsys, "storage", "rebuild")
    assert said(capsys, "storage", "verify").endswith("all is well\n")


def test_an_imported_file_says_what_was_said_live(
    stored: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "all.kvx"
    told = json.loads(said(capsys, "storage", "export", str(file), "--json"))
    assert told["bytes"] == file.stat().st_size
    other = f"sqlite:///{tmp_path / 'other.db'}"
    text = said(capsys, "storage", "import", str(file), "--database", other)
    assert text == f"{told['events']:,} events imported: engine epoch 1\n"
    with serving(tmp_path, database_url=other) as client:
        [source] = client.get("/api/sources").json()["sources"]
        assert (source["source"], source["state"], source["epoch"]) == ("engine", "past", 1)
        for moment, live in stored.items():
            assert pictured(client.get, at=moment) == live
        # Without a moment it is the last one, and its feed says so too.
        assert pictured(client.get) == stored[source["last_seq"]]
        with client.websocket_connect("/api/live?source=engine", headers={"host": "127.0.0.1:8501"}) as socket:
            assert json.loads(socket.receive_text())["source"]["state"] == "past"
        assert client.get("/api/requests/nobody/text").status_code == 404


def test_earlier_sources_are_shown_beside_those_that_are_followed(stored: dict[str, Any], tmp_path: Path) -> None:
    with SmallEngine() as engine, serving(tmp_path, source_of(engine, "another")) as client:
        engine.work(5)
        caught_up(client, engine, "another")
        found = {source["source"]: source["state"] for source in client.get("/api/sources").json()["sources"]}
        assert found == {"another": "connected", "engine": "past"}
        assert list(found) == ["another", "engine"]
        moment = next(iter(stored))
        assert pictured(client.get, source="engine", at=moment) == stored[moment]


def test_a_source_of_which_nothing_is_left_is_told_without_a_state(
    stored: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # However long all this takes.
    monkeypatch.setattr("kvxray_storage.retention_plan.OUTLIVES", {1: 10**6, 60: 10**6})
    until(lambda: "all of it" in said(capsys, "storage", "prune", "--dry-run", "--age", "1s"))
    assert "all of it" in said(capsys, "storage", "prune", "--age", "1s")
    with serving(tmp_path) as client:
        [source] = client.get("/api/sources").json()["sources"]
        assert (source["source"], source["state"], source["last_seq"]) == ("engine", "past", None)
        pruned = r"No state of the source engine is stored: what it told was pruned, up to 20[\d:.TZ-]+\."
        for path in ("state", "state/blocks", "requests", "requests/x", "requests/x/history", "blocks/1", "hashes/ab"):
            answer = client.get(f"/api/{path}")
            assert answer.status_code == 404
            assert re.fullmatch(pruned, answer.json()["error"])
        # Rollups outlive events; the timeline says what became of the rest once they went, too.
        assert client.get("/api/timeline").status_code == 200
        with backend_of(client).database.writing() as connection:
            for table in TABLES.values():
                connection.execute(sa.delete(table))
        pruned = r"Nothing is stored of the source engine any more: what it told was pruned, up to 20[\d:.TZ-]+\."
        for path in ("/api/timeline", "/api/state?at=2020-01-01T00:00:00Z"):
            answer = client.get(path)
            assert answer.status_code == 404
            assert re.fullmatch(pruned, answer.json()["error"])


@pytest.mark.parametrize("data", [b"", b"nothing", b"KVXF\x01\0\0\0" + b"\xff" * 40, b"KVXF\x09\0\0\0"])
def test_other_files_are_refused_in_one_sentence(
    data: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "no.kvx"
    file.write_bytes(data)
    for command in (("storage", "import", str(file)), ("replay", str(file), "--port", "0")):
        told = refused(capsys, *command)
        assert re.fullmatch(rf"kvxray: {file} cannot be imported: [^\n]+\.\n", told)
    assert "cannot be read: No such file" in refused(capsys, "storage", "import", str(tmp_path / "none.kvx"))
    assert "cannot be read: Is a directory" in refused(capsys, "replay", str(tmp_path))


def test_parquet_needs_no_kvxray_to_read(
    stored: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "events.parquet"
    told = json.loads(said(capsys, "storage", "export", str(file), "--json", "--source", "engine"))
    table = parquet.read_table(file)
    assert len(table) == told["events"]
    assert {"RequestArrived", "BlockAllocated"} <= set(table.column("kind").to_pylist())


def test_replay_shows_the_file_and_leaves_nothing_behind(
    stored: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "all.kvx"
    said(capsys, "storage", "export", str(file))
    folder = tmp_path / "scratch"
    folder.mkdir()
    environment = {**os.environ, "TMPDIR": str(folder), "KVXRAY_PAGE": "false"}
    command = [sys.executable, "-m", "kvxray_backend.cli", "replay", str(file), "--port", "0"]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        first, second = process.stderr.readline(), process.stderr.readline()
        assert "events of 1 epoch in" in first
        [address] = re.findall(r"http://127\.0\.0\.1:\d+", second)
        assert [one.name.startswith("kvxray-replay-") for one in folder.iterdir()] == [True]
        with httpx2.Client(base_url=address) as http:
            until(lambda: answers(http))
            for moment, live in stored.items():
                assert pictured(http.get, at=moment) == live
    finally:
        process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=60)[1]
    assert process.returncode == 0, rest
    assert list(folder.iterdir()) == []
    assert tempfile.gettempdir() != str(folder)


def answers(http: httpx2.Client) -> bool:
    try:
        return http.get("/api/health").status_code == 200
    except httpx2.HTTPError:
        return False


def test_what_the_settings_say_of_retention_is_what_the_log_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = {"events": "tcp://127.0.0.1:5570", "replay": "tcp://127.0.0.1:5571"}
    told = [
        {"name": "a", **spec},
        {"name": "b", "retention_age": "1h", **spec},
        {"name": "c", "retention_size": "1GB", **spec},
    ]
    monkeypatch.setenv("KVXRAY_SOURCES", json.dumps(told))
    week = 7 * 86_400
    found = retention_of(load_settings())
    assert found.everyone == Limits(week, 10**10)
    assert found.sources == {"a": None, "b": Limits(3600, None), "c": Limits(week, 10**9)}
    monkeypatch.setenv("KVXRAY_RETENTION_AGE", "none")
    monkeypatch.setenv("KVXRAY_RETENTION_SIZE", "2TiB")
    assert retention_of(load_settings()).everyone == Limits(None, 2 << 40)
    monkeypatch.setenv("KVXRAY_RETENTION_SIZE", "much")
    with pytest.raises(UserError, match=r"^Mend KVXRAY_RETENTION_SIZE: 'much' is not a size such as 10GB[^.]*\.$"):
        load_settings()


def test_quantities_are_read_and_told() -> None:
    assert [parse_age(text) for text in ("90s", "30m", "12h", "7d", "2w", "none", "1.5h")] == [
        90, 1800, 43_200, 604_800, 1_209_600, None, 5400,
    ]  # fmt: skip
    assert [parse_size(text) for text in ("10GB", "512 MiB", "none", "1.5tb")] == [10**10, 512 << 20, None, 15 * 10**11]
    for text in ("", "7", "d", "-1d", "1e9d", "7dd", "0s", "٣h"):
        with pytest.raises(ValueError, match="is not an age"):
            parse_age(text)
    for text in ("", "10", "GB", "10 bytes", "-5GB"):
        with pytest.raises(ValueError, match="is not a size"):
            parse_size(text)
    assert [age_text(one) for one in (604_800, 5400, 61, None)] == ["7d", "90m", "61s", "unlimited"]
    assert [size_text(one) for one in (12, 1234, 10**10, None)] == ["12 bytes", "1.23 kB", "10 GB", "unlimited"]
