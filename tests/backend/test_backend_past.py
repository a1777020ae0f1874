"""The past over the API: every moment is told as it was told when it was the present."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from kvxray_backend.block_details import details_frame, details_with_sharers
from kvxray_backend.block_order_frame import order_frame
from kvxray_backend.moments import iso_time
from kvxray_backend.routes.dependencies import find_source
from kvxray_backend.stored_findings import row_of

from tests.backend.past_told import moments
from tests.backend.served import backend_of, caught_up, until
from tests.backend.small_engine import SmallEngine
from tests.backend.viewer import Picture, read_frame


@pytest.fixture
def engine() -> Iterator[SmallEngine]:
    with SmallEngine(leak=True) as engine:
        yield engine


def picture_of(client: TestClient, **at: str) -> Picture:
    picture = Picture()
    picture.load(read_frame(client.get("/api/state/blocks", params=at).content))
    return picture


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
