"""The past over the API: every moment is told as it was told when it was the present."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from kvxray_backend.block_details import details_frame, details_with_sharers
from kvxray_backend.block_order_frame import order_frame
from kvxray_backend.moments import Moment, iso_time
from kvxray_backend.routes.dependencies import find_source
from kvxray_backend.stored_findings import row_of
from kvxray_backend.timeline import bucket_seconds
from kvxray_engine.clock import SystemClock
from kvxray_storage.records import FindingRow

from tests.backend.served import ADDRESS, backend_of, caught_up, serving, source_of, until
from tests.backend.small_engine import SmallEngine
from tests.backend.viewer import Picture, read_frame

OPEN_LEAK = FindingRow(
    id="leak-1", kind="leak", severity="warning", source="engine", epoch=1, seq0=1, seq1=2, time_ns=0, state="open",
    ended_ns=None, subjects={}, numbers={}, certainty="exact", sentence="Block 3 is still held.",
)  # fmt: skip


@pytest.fixture
def engine() -> Iterator[SmallEngine]:
    with SmallEngine(leak=True) as engine:
        yield engine


@pytest.fixture
def client(engine: SmallEngine, tmp_path: Path) -> Iterator[TestClient]:
    with serving(tmp_path, source_of(engine)) as client:
        yield client


def told_live(client: TestClient) -> dict[str, Any]:
    """What the API says of the present."""
    state = client.get("/api/state").json()
    made = backend_of(client).sources["engine"].live.snapshot_frame()
    assert made is not None
    picture = Picture()
    picture.load(read_frame(made[1]))
    return {
        "at": state["seq"],
        "state": state,
        "picture": picture,
        "requests": client.get("/api/requests", params={"limit": 1000}).json(),
        "blocks": [client.get(f"/api/blocks/{block}").json() for block in (1, 2, 30)],
        "events": client.get("/api/events", params={"limit": 50}).json()["events"],
    }


def picture_of(client: TestClient, **at: str) -> Picture:
    picture = Picture()
    picture.load(read_frame(client.get("/api/state/blocks", params=at).content))
    return picture


def moments(client: TestClient, engine: SmallEngine, times: int) -> list[dict[str, Any]]:
    """The present as it was told after each of some stretches of work."""
    told = []
    for _ in range(times):
        engine.work(12)
        caught_up(client, engine)
        told.append(told_live(client))
    return told


def test_every_answer_about_the_past_is_what_was_answered_then(client: TestClient, engine: SmallEngine) -> None:
    for then in moments(client, engine, 6):
        at = {"at": then["at"]}
        state = client.get("/api/state", params=at).json()
        assert state["at"] == then["at"]
        assert state["counts"] == {
            name: figure | {"since_seq": state["counts"][name]["since_seq"]}
            for name, figure in then["state"]["counts"].items()
        }
        for name in ("seq", "step", "time", "usable_blocks", "block_size", "bytes_per_block"):
            assert state[name] == then["state"][name]
        assert (state["figures"].keys()) == then["state"]["figures"].keys()
        for name in ("used", "cached", "shared", "internal_fragmentation"):
            assert state["figures"][name]["value"] == then["state"]["figures"][name]["value"]
        assert client.get("/api/requests", params={**at, "limit": 1000}).json() == then["requests"]
        assert client.get("/api/events", params={**at, "limit": 50}).json()["events"] == then["events"]
        for block in then["blocks"]:
            past = client.get(f"/api/blocks/{block['block_id']}", params=at).json()
            for name in ("state", "block_hash", "parent_block_hash", "holders", "allocated_at", "history"):
                assert past[name] == block[name]


def test_the_picture_of_the_past_is_the_picture_of_then(client: TestClient, engine: SmallEngine) -> None:
    for then in moments(client, engine, 4):
        past = picture_of(client, at=then["at"])
        for mine, theirs in zip(past.columns[:3], then["picture"].columns[:3], strict=True):
            assert (mine == theirs).all()


def test_the_details_and_the_order_of_the_past_are_those_of_then(client: TestClient, engine: SmallEngine) -> None:
    live = backend_of(client).sources["engine"].live
    told = []
    for _ in range(3):
        engine.work(12)
        caught_up(client, engine)
        frames = details_frame(live), details_with_sharers(live), order_frame(live)
        told.append((client.get("/api/state").json()["seq"], *frames))
    asked = ("details", "details?sharers=1", "order")
    for at, *then in told:
        past = [client.get(f"/api/state/{what}{'&' if '?' in what else '?'}at={at}").content for what in asked]
        assert past == [frame[1] for frame in then if frame is not None]


def test_a_delta_leads_from_any_moment_to_any_other(client: TestClient, engine: SmallEngine) -> None:
    told = moments(client, engine, 4)
    for a, b in ((0, 3), (3, 0), (1, 2), (2, 2)):
        start, end = told[a]["at"], told[b]["at"]
        shown, wanted = picture_of(client, at=start), picture_of(client, at=end)
        frame = read_frame(client.get("/api/state/delta", params={"from": start, "to": end}).content)
        for mine, theirs in zip(shown.columns, frame.columns, strict=True):
            mine[frame.ids] = theirs
        for mine, theirs in zip(shown.columns, wanted.columns, strict=True):
            assert (mine == theirs).all()


def test_a_time_means_the_last_event_before_it(client: TestClient, engine: SmallEngine) -> None:
    first, second = moments(client, engine, 2)
    by_time = client.get("/api/state", params={"at": second["state"]["time"]}).json()
    assert first["state"]["step"] <= by_time["step"] <= second["state"]["step"]
    assert client.get("/api/state", params={"at": "2999-01-01T00:00:00+01:00"}).json()["seq"] == second["at"]


def test_a_leak_of_the_past_is_marked_and_named_at_its_moment(client: TestClient, engine: SmallEngine) -> None:
    engine.add("leaker", prompt=60, output=30)
    engine.step(3)
    engine.abort("leaker")
    engine.work(6)

    def leaks() -> list[dict[str, Any]]:
        engine.work(1)
        found = client.get("/api/findings", params={"state": "open"}).json()["findings"]
        return [finding for finding in found if finding["kind"] == "leak"]

    until(leaks)
    # It may have been found at the time of a heartbeat: what happens next is surely later.
    engine.work(2)
    caught_up(client, engine)
    until(lambda: client.get("/api/findings").json()["findings"])
    at = client.get("/api/state").json()["seq"]
    assert backend_of(client).log.flush(5)
    findings = client.get("/api/findings", params={"at": at}).json()["findings"]
    assert "leaker" in [name for finding in findings for name in finding["subjects"]["requests"]]
    requests = client.get("/api/requests", params={"at": at}).json()["requests"]
    assert [row["leaked_blocks"] > 0 for row in requests if row["request_id"] == "leaker"] == [True]
    earlier = client.get("/api/findings", params={"at": "1.5"}).json()["findings"]
    assert earlier == []


def test_a_leak_of_the_past_is_as_old_and_as_large_as_it_was_then(client: TestClient, engine: SmallEngine) -> None:
    engine.add("leaker", prompt=60, output=30)
    engine.step(3)
    engine.abort("leaker")

    def leaks(**query: Any) -> list[dict[str, Any]]:
        found = client.get("/api/findings", params={"state": "open", **query}).json()["findings"]
        return [finding for finding in found if finding["kind"] == "leak"]

    def leaker_leaks() -> bool:
        engine.work(1)
        return any(leak["subjects"]["requests"] == ["leaker"] for leak in leaks())

    until(leaker_leaks)
    engine.work(2)
    caught_up(client, engine)
    at = client.get("/api/state").json()["seq"]
    backend = backend_of(client)
    source = find_source(backend, None)
    assert source is not None
    (found,) = [finding for finding in source.live.findings if finding.subjects.requests == ("leaker",)]
    # What is stored of an open leak is what was found last, here long after that moment.
    later = {"sentence": "as of later", "numbers": {"blocks": 99, "blocks_only": 99, "ended_s_ago": 215.0}}
    backend.log.finding(row_of(found.model_copy(update=later)))
    assert backend.log.flush(60)
    (then,) = [leak for leak in leaks(at=at) if leak["subjects"]["requests"] == ["leaker"]]
    assert then["time"] == iso_time(found.time_ns), "it began when it was found"
    assert then["numbers"]["blocks"] == found.numbers["blocks"]
    assert 0 < then["numbers"]["ended_s_ago"] < 215
    assert f"aborted {then['numbers']['ended_s_ago']:.0f} s ago, still holds" in then["sentence"]


def test_a_summary_of_the_past_has_all_that_the_page_shows(client: TestClient, engine: SmallEngine) -> None:
    (then,) = moments(client, engine, 1)
    summary = client.get("/api/summary", params={"at": then["at"]}).json()
    assert summary["state"]["seq"] == then["at"]
    assert summary["source"]["state"] == "past"
    assert summary["requests"]
    assert summary["events"]
    live = client.get("/api/summary").json()
    assert live["source"]["state"] == "connected"


def test_deltas_of_the_present_are_asked_for_elsewhere(client: TestClient) -> None:
    answer = client.get("/api/state/delta", params={"from": "live", "to": "1.2"})
    assert answer.status_code == 400


def test_steps_lead_through_history_and_back(client: TestClient, engine: SmallEngine) -> None:
    first, last = moments(client, engine, 2)

    def step(at: str, by: str, n: int) -> dict[str, Any]:
        answer = client.get("/api/step", params={"at": at, "by": by, "n": n})
        assert answer.status_code == 200
        return answer.json()

    seq = int(last["at"].split(".")[1])
    assert step(last["at"], "event", -1)["at"] == f"1.{seq - 1}"
    assert step(f"1.{seq - 1}", "event", 1)["at"] == last["at"]
    back = step(last["at"], "step", -12)
    assert (back["at"], back["step"]) == (first["at"], first["state"]["step"])
    assert step(back["at"], "step", 12)["at"] == last["at"]
    assert step(last["at"], "event", 1000)["at"] == last["at"]


def test_a_difference_names_what_changed_and_whose(client: TestClient, engine: SmallEngine) -> None:
    engine.work(3)
    caught_up(client, engine)
    before = client.get("/api/state").json()["seq"]
    engine.add("newcomer", prompt=80, output=30)
    engine.step(4)
    caught_up(client, engine)
    after = client.get("/api/state").json()["seq"]
    told = client.get("/api/diff", params={"from": before, "to": after}).json()
    newcomer = next(change for change in told["holders"] if change["request_id"] == "newcomer")
    held = client.get("/api/requests/newcomer", params={"at": after}).json()["block_table"]
    assert (newcomer["gained"], newcomer["lost"]) == (len(held), 0)
    changed = {block for blocks in told["blocks"].values() for block in blocks}
    assert set(held) <= changed
    assert told["counts"] == {kind: len(blocks) for kind, blocks in told["blocks"].items()}
    same = client.get("/api/diff", params={"from": after, "to": after}).json()
    assert (same["changed"], same["holders"]) == (0, [])
    assert client.get("/api/diff", params={"from": before, "to": "live"}).json()["to_seq"] == after


class SteppedClock(SystemClock):
    """Goes on by so much whenever an engine step is timed by hand."""

    def __init__(self) -> None:
        self.ahead_ns = 0

    def wall_ns(self) -> int:
        return super().wall_ns() + self.ahead_ns

    def mono_ns(self) -> int:
        return super().mono_ns() + self.ahead_ns


def all_events(client: TestClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    at = "1.0"
    while page := client.get("/api/events", params={"from": at, "limit": 1000}).json():
        found += page["events"]
        if len(page["events"]) < 1000:
            return found
        at = page["next"]
    return found


@contextmanager
def minutes_of_work(folder: Path, minutes: int) -> Iterator[tuple[TestClient, str]]:
    """A backend that has followed so many minutes of the engine's time, and the last moment."""
    clock = SteppedClock()
    with SmallEngine(clock=clock) as engine, serving(folder, source_of(engine)) as client:
        caught_up(client, engine)  # joined before anything happens, so that all of it is known
        for _ in range(minutes * 120):
            engine.work(1)
            clock.ahead_ns += 500_000_000
        caught_up(client, engine)
        yield client, client.get("/api/state").json()["seq"]


def test_rates_and_the_hit_rate_of_the_past_are_those_of_its_events(tmp_path: Path) -> None:
    with minutes_of_work(tmp_path, 3) as (client, last):
        rows = all_events(client)
        at = rows[len(rows) * 3 // 4]["seq"]
        state = client.get("/api/state", params={"at": at}).json()
        now = seconds(state["time"])
        before = [row for row in rows if int(row["seq"][2:]) <= int(at[2:])]
        minute = [row for row in before if seconds(row["time"]) > now - 60]
        looked_up = [row for row in minute if row["kind"] == "RequestScheduled"]
        hit, queried = sum(row["a1"] for row in looked_up), sum(row["a0"] for row in looked_up)
        # Windows begin with a whole second, which holds at most two of some hundred steps.
        assert state["figures"]["hit_rate"]["value"] == pytest.approx(hit / queried, rel=0.1)
        allocated = sum(row["kind"] == "BlockAllocated" and seconds(row["time"]) > now - 10 for row in before)
        assert state["figures"]["allocations_per_s"]["value"] == pytest.approx(allocated / 10, rel=0.3)


def rates(client: TestClient, at: str) -> dict[str, Any]:
    figures: dict[str, Any] = client.get("/api/state", params={"at": at}).json()["figures"]
    return {name: figures[name]["value"] for name in ("allocations_per_s", "tokens_per_s", "hit_rate")}


@pytest.mark.parametrize("set_back_s", [12, 30, 300])
def test_rates_around_a_clock_that_was_set_back_are_those_of_the_events_of_then(
    tmp_path: Path, set_back_s: int
) -> None:
    """Two steps a second of the engine's own time, whatever its clock says: windows hold so many steps."""
    clock = SteppedClock()
    with SmallEngine(clock=clock) as engine, serving(tmp_path, source_of(engine)) as client:
        caught_up(client, engine)
        steps: list[int] = []
        for step in range(1, 111):
            engine.work(1)
            steps.append(engine.recorder.next_seq - 1)
            clock.ahead_ns += 500_000_000
            if step == 60:
                clock.ahead_ns -= set_back_s * 1_000_000_000
        caught_up(client, engine)
        rows = all_events(client)
        for step in (50, 60, 66, 76, 110):
            told = rates(client, f"1.{steps[step - 1]}")
            within = [row for row in rows if steps[step - 21] < int(row["seq"][2:]) <= steps[step - 1]]
            allocated = sum(row["kind"] == "BlockAllocated" for row in within) / 10
            tokens = sum(row["a0"] for row in within if row["kind"] == "TokensGenerated") / 10
            # A window begins with a whole second at most: a step or two more or less of twenty.
            assert told["tokens_per_s"] == pytest.approx(tokens, rel=0.2), step
            assert told["allocations_per_s"] == pytest.approx(allocated, abs=0.7), step
            assert told["hit_rate"] is not None


def test_the_timeline_adds_up_to_the_events(tmp_path: Path) -> None:
    with minutes_of_work(tmp_path, 3) as (client, last):
        rows = all_events(client)
        counted = {
            "allocations_per_s": sum(row["kind"] == "BlockAllocated" for row in rows),
            "evictions_per_s": sum(row["kind"] == "BlockEvicted" for row in rows),
            "tokens_per_s": sum(row["a0"] for row in rows if row["kind"] == "TokensGenerated"),
        }
        for points in (2_000, 50, 3):
            told = client.get("/api/timeline", params={"points": points}).json()
            assert len(told["t"]) <= points + 1
            for name, count in counted.items():
                assert sum(told["series"][name]) * told["seconds"] == pytest.approx(count)
            for name in ("free", "cached", "active", "shared", "running"):
                series = told["series"]
                for low, value, high in zip(series[f"{name}_min"], series[name], series[f"{name}_max"], strict=True):
                    assert low <= value <= high, name
        last_state = client.get("/api/state", params={"at": last}).json()
        assert told["series"]["cached"][-1] == last_state["counts"]["cached"]["value"]


@pytest.mark.parametrize(
    ("begin", "end", "points", "seconds_each"),
    [
        ("10:00:00", "10:14:00", 840, 1),
        ("10:00:00.250", "10:14:00.250", 840, 1),
        ("10:00:00", "10:14:00.001", 840, 2),
        ("10:00:00", "11:00:00", 60, 60),
        ("10:00:00", "11:00:01", 60, 120),
    ],
)
def test_a_stretch_has_as_many_points_as_are_asked_for(begin: str, end: str, points: int, seconds_each: int) -> None:
    first, last = (Moment.parse(f"2026-01-01T{time}Z") for time in (begin, end))
    assert first.begin_ns is not None
    assert last.t_ns is not None
    assert bucket_seconds(last.t_ns - first.begin_ns, points) == seconds_each


def seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


def test_what_became_of_a_hash_is_told(client: TestClient, engine: SmallEngine) -> None:
    moments(client, engine, 3)
    assert backend_of(client).log.flush(5)
    rows = all_events(client)
    cached = next(row for row in rows if row["kind"] == "BlockCached")
    block = client.get(f"/api/blocks/{cached['block_id']}", params={"at": cached["seq"]}).json()
    told = client.get(f"/api/hashes/{block['block_hash']}").json()
    first = told["stays"][-1]
    assert (first["block_id"], first["since"]["seq"]) == (cached["block_id"], cached["seq"])
    of_block = [row for row in rows if row["block_id"] == cached["block_id"] and row["seq"] != cached["seq"]]
    later = [row for row in of_block if int(row["seq"][2:]) > int(cached["seq"][2:])]
    ends = [row for row in later if row["kind"] in ("BlockEvicted", "BlockAllocated", "BlockCached")]
    assert first["until"] == (ends[0] if ends else None)
    end = int(ends[0]["seq"][2:]) if ends else 10**9
    assert first["hits"] == sum(row["kind"] == "BlockReferenced" and int(row["seq"][2:]) < end for row in later)
    at_once = client.get(f"/api/hashes/{block['block_hash']}", params={"at": cached["seq"]}).json()["stays"]
    assert [(stay["until"], stay["hits"]) for stay in at_once] == [(None, 0)]


def test_a_prefix_of_the_past_is_what_it_was(client: TestClient, engine: SmallEngine) -> None:
    """Also where the state of the past brings no bytes of hashes, so that the log has to tell them."""
    engine.add("mine", prompt=70, output=5)
    engine.step(4)
    caught_up(client, engine)
    now = client.get("/api/state").json()["seq"]
    (request,) = engine.engine.scheduler.running
    hashes = [client.get(f"/api/blocks/{block}").json()["block_hash"] for block in request.block_table]
    told = [client.get(f"/api/prefixes/{block_hash}").json() for block_hash in hashes if block_hash]
    assert len(told) >= 2
    engine.work(40)
    caught_up(client, engine)
    assert backend_of(client).log.flush(5)
    for then in told:
        past = client.get(f"/api/prefixes/{then['block_hash']}", params={"at": now}).json()
        assert {**past, "tokens": None} == {**then, "tokens": None}
        assert past["tokens"]["value"] == then["tokens"]["value"]


@pytest.mark.parametrize(("block_hash", "status"), [("zz", 400), ("abc", 400), ("00" * 32, 200), ("0" * 65, 422)])
def test_a_hash_that_is_none(client: TestClient, engine: SmallEngine, block_hash: str, status: int) -> None:
    engine.work(3)
    caught_up(client, engine)
    assert backend_of(client).log.flush(5)
    answer = client.get(f"/api/hashes/{block_hash}")
    assert answer.status_code == status
    assert answer.json().get("stays", []) == []


def test_the_history_of_a_request_that_is_long_over(client: TestClient, engine: SmallEngine) -> None:
    engine.add("mine", prompt=70, output=5)
    moments(client, engine, 2)
    assert backend_of(client).log.flush(5)
    told = client.get("/api/requests/mine/history", params={"limit": 1000}).json()["events"]
    assert told == [row for row in all_events(client) if row["request_id"] == "mine"]
    assert told[0]["kind"] == "RequestArrived"
    assert client.get("/api/requests/nobody/history").status_code == 404


def test_bookmarks_are_kept_with_their_moment_and_note(client: TestClient, engine: SmallEngine) -> None:
    first, second = moments(client, engine, 2)
    made = client.post("/api/bookmarks", json={"at": first["at"], "note": "before the storm"})
    assert made.status_code == 201
    client.post("/api/bookmarks", json={"at": second["at"]})
    told = client.get("/api/bookmarks").json()["bookmarks"]
    assert [(mark["at"], mark["note"]) for mark in told] == [(second["at"], ""), (first["at"], "before the storm")]
    assert told[1]["time"] == first["state"]["time"]
    assert client.delete(f"/api/bookmarks/{made.json()['id']}").status_code == 204
    assert client.delete(f"/api/bookmarks/{made.json()['id']}").status_code == 404
    assert [mark["at"] for mark in client.get("/api/bookmarks").json()["bookmarks"]] == [second["at"]]


@pytest.mark.parametrize(
    ("body", "status"),
    [({"at": "live"}, 400), ({"at": "1.99999999"}, 404), ({"at": "1.1", "note": "x" * 501}, 422), ({}, 422), ([], 422)],
)
def test_what_is_no_bookmark_is_refused(client: TestClient, engine: SmallEngine, body: Any, status: int) -> None:
    engine.work(3)
    caught_up(client, engine)
    answer = client.post("/api/bookmarks", json=body)
    assert answer.status_code == status
    assert set(answer.json()) == {"error"}
    assert client.get("/api/bookmarks").json()["bookmarks"] == []


def test_a_body_that_is_no_json_is_refused_in_words(client: TestClient) -> None:
    for body in (b"{", b"\xff\xfe", b"[" * 20):
        answer = client.post("/api/bookmarks", content=body, headers={"content-type": "application/json"})
        assert answer.status_code == 422
        assert answer.json() == {"error": "The body is not JSON; /api/docs says what goes in it."}


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (
            "UPDATE epoch SET descriptor = '{'",
            "What is stored of that moment is damaged: What epoch 1 is cannot be read:",
        ),
        ("UPDATE finding SET subjects = '['", "What is stored of that moment is damaged: The finding leak-1 cannot be"),
        (
            "UPDATE finding SET certainty = 'x'",
            "What is stored of that moment is damaged: The finding leak-1 cannot be",
        ),
    ],
)
def test_damaged_rows_are_told_in_one_sentence(client: TestClient, engine: SmallEngine, damage: str, told: str) -> None:
    engine.work(20)
    caught_up(client, engine)
    log, database = backend_of(client).log, backend_of(client).database
    log.finding(OPEN_LEAK)
    assert log.flush(5)
    last = client.get("/api/state").json()["seq"]
    with database.writing() as connection:
        connection.exec_driver_sql(damage)
    answer = client.get("/api/state", params={"at": last})
    assert answer.status_code == 500
    assert answer.json()["error"].startswith(told)


def test_a_mistake_of_ours_is_told_in_one_sentence_too(client: TestClient, engine: SmallEngine) -> None:
    engine.work(3)
    caught_up(client, engine)
    patient = TestClient(client.app, base_url=ADDRESS, raise_server_exceptions=False)
    with backend_of(client).database.writing() as connection:
        connection.exec_driver_sql("INSERT INTO bookmark VALUES ('x', 'engine', 1, -1, 0, '', 0, NULL)")
    answer = patient.get("/api/bookmarks")
    assert answer.status_code == 500
    assert answer.json() == {"error": "kvxray made a mistake over this request; its log tells which."}


def test_a_foreign_page_cannot_write_bookmarks(client: TestClient, engine: SmallEngine) -> None:
    (then,) = moments(client, engine, 1)
    foreign = {"origin": "http://evil.example"}
    assert client.post("/api/bookmarks", json={"at": then["at"]}, headers=foreign).status_code == 403
    assert client.get("/api/bookmarks").json()["bookmarks"] == []
