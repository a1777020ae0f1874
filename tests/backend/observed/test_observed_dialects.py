"""Engines that publish nothing are watched too: a server that is asked for its events, a file that a router writes."""

from __future__ import annotations

import json
from collections import deque
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from kvxray_backend.observed.spec import ObserveSpec
from kvxray_storage import history

from tests.backend.metrics.web import serving, text
from tests.backend.observed.test_observed_storing import stored_numbers
from tests.backend.observed.watching import kinds, num_cached, stored_in, until, watching


def trt_stored(number: int, **more: Any) -> dict[str, Any]:
    tokens = [{"type": "unique_token", "token_id": token, "token_extra_id": 0} for token in range(32)]
    block = {"type": "stored_block", "block_hash": 1000 + number, "tokens": tokens, "cache_level": 0, "priority": 35}
    return {
        "event_id": number,
        "data": {"type": "stored", "parent_hash": None, "blocks": [block]},
        "window_size": 4096,
        **more,
    }


class TrtServer:
    """Each answer has what was told since the last one, and nobody gets it twice."""

    def __init__(self) -> None:
        self.queue: deque[list[dict[str, Any]]] = deque()
        self.is_down = False

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        if self.is_down:
            text("down", 503)(handler)
            return
        text(json.dumps(self.queue.popleft() if self.queue else []))(handler)


def trt_spec(url: str) -> ObserveSpec:
    return ObserveSpec(name="e", make="trtllm", events=f"{url}/kv_cache_events")


def test_a_server_that_is_asked_tells_all_its_ranks(tmp_path: Path) -> None:
    server = TrtServer()
    created = {
        "event_id": 0,
        "data": {"type": "created", "num_blocks_per_cache_level": [100, 10]},
        "window_size": 4096,
        "attention_dp_rank": 0,
    }
    server.queue.append([created, *(trt_stored(number, attention_dp_rank=0) for number in range(1, 4))])
    server.queue.append([trt_stored(number, attention_dp_rank=1) for number in range(2)])
    with stored_in(tmp_path) as (database, log), serving(server.answer) as web:
        with watching(database, log, trt_spec(web.url)) as engine:
            until(lambda: num_cached(engine) == 3 and num_cached(engine, "e/1") == 2)
            until(lambda: engine.connection == "connected")
            assert engine.ranks["e"].followed.fold.descriptor.pools[0].num_blocks == 100
            server.queue.append([trt_stored(7, attention_dp_rank=0)])
            until(lambda: "seq_gap" in kinds(engine))
        assert log.flush(10)
        assert [source.name for source in history.sources(database)] == ["e", "e/1"]


def test_a_server_that_is_down_is_said_to_be_and_asked_again(tmp_path: Path) -> None:
    server = TrtServer()
    server.is_down = True
    with (
        stored_in(tmp_path) as stored,
        serving(server.answer) as web,
        watching(*stored, trt_spec(web.url)) as engine,
    ):
        until(lambda: engine.trouble == "it answers with 503")
        assert engine.connection == "waiting"
        server.queue.append([trt_stored(0)])
        server.is_down = False
        until(lambda: num_cached(engine) == 1 and not engine.trouble)


def test_what_a_server_answers_that_are_no_events_is_counted(tmp_path: Path) -> None:
    with (
        stored_in(tmp_path) as (database, log),
        serving(text("<html>")) as web,
        watching(database, log, trt_spec(web.url)) as engine,
    ):
        until(lambda: [row.kind for row in history.findings(database, "e")] == ["malformed"])
        assert engine.ranks == {}


def dynamo_line(number: int, worker: int = 7, life: int = 1) -> str:
    """A recording's clock begins anew with each life."""
    block = {"block_hash": 1000 * worker + number + 1_000_000 * life, "tokens_hash": number}
    event = {"event_id": number, "dp_rank": 0, "data": {"stored": {"parent_hash": None, "blocks": [block]}}}
    router_event = {"worker_id": worker, "storage_tier": "device", "event": event}
    return json.dumps({"timestamp": 10 * number + life, "event": router_event}) + "\n"


def file_spec(path: Path) -> ObserveSpec:
    return ObserveSpec(name="e", make="dynamo", events=f"file://{path}")


def test_a_file_is_followed_as_it_grows_and_when_another_takes_its_place(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with stored_in(tmp_path) as stored, watching(*stored, file_spec(path)) as engine:
        until(lambda: "cannot be read" in engine.trouble)
        path.write_text(dynamo_line(0) + dynamo_line(1) + dynamo_line(2)[:20])
        until(lambda: num_cached(engine) == 2 and not engine.trouble)
        with path.open("a") as file:
            file.write(dynamo_line(2)[20:] + dynamo_line(0, worker=8))
        until(lambda: num_cached(engine) == 3 and num_cached(engine, "e/worker 8") == 1)
        other = tmp_path / "other"
        other.write_text(dynamo_line(3))
        other.rename(path)
        until(lambda: num_cached(engine) == 4)
        assert kinds(engine) == []


def test_a_file_that_is_read_again_is_not_stored_again(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(dynamo_line(0) + dynamo_line(1))
    with stored_in(tmp_path) as stored, watching(*stored, file_spec(path)) as engine:
        until(lambda: num_cached(engine) == 2)
    with path.open("a") as file:
        file.write(dynamo_line(2))
    with stored_in(tmp_path) as (database, log):
        with watching(database, log, file_spec(path)) as engine:
            until(lambda: num_cached(engine) == 3)
        assert log.flush(10)
        assert [row.num_events for row in history.epochs(database, "e")] == [4, 2]


def told(path: Path, tmp_path: Path, cached: int) -> dict[int, list[int]]:
    """The numbers that are stored, by epoch, once a new process has read the recording."""
    with stored_in(tmp_path) as (database, log):
        with watching(database, log, file_spec(path)) as engine:
            until(lambda: num_cached(engine) == cached)
        assert log.flush(10)
        return {epoch: numbers for epoch, numbers in stored_numbers(database).items() if numbers}


def lines(first: int, last: int, life: int) -> str:
    return "".join(dynamo_line(number, life=life) for number in range(first, last + 1))


def test_of_a_recording_with_two_lives_each_is_stored_once_whenever_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(lines(0, 9, life=1) + lines(0, 4, life=2))
    assert told(path, tmp_path, cached=5) == {1: [*range(10)], 2: [*range(5)]}
    assert told(path, tmp_path, cached=5) == {1: [*range(10)], 2: [*range(5)]}
    with path.open("a") as file:
        file.write(lines(5, 12, life=2))
    stored = {1: [*range(10)], 2: [*range(5)], 6: [*range(5, 13)]}
    assert told(path, tmp_path, cached=13) == stored
    assert told(path, tmp_path, cached=13) == stored
    with path.open("a") as file:
        file.write(lines(0, 2, life=3))
    found = told(path, tmp_path, cached=3)
    assert [*found.values()] == [*stored.values(), [0, 1, 2]]


def test_a_recording_that_began_anew_while_nobody_read_it_is_stored_whole(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(lines(0, 4, life=1))
    told(path, tmp_path, cached=5)
    with path.open("a") as file:
        file.write(lines(5, 9, life=1))
    assert told(path, tmp_path, cached=10) == {1: [*range(5)], 2: [*range(5, 10)]}
    path.write_text(lines(0, 12, life=2))
    assert told(path, tmp_path, cached=13) == {1: [*range(5)], 2: [*range(5, 10)], 3: [*range(13)]}


def test_lines_that_are_none_cost_a_count_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text("nonsense\n" + dynamo_line(0) + "\n[]\n" + dynamo_line(1))
    with stored_in(tmp_path) as (database, log), watching(database, log, file_spec(path)) as engine:
        until(lambda: num_cached(engine) == 2)
        until(lambda: [row.numbers for row in history.findings(database, "e")] == [{"frames": 2}])
