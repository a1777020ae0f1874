"""kvxray watches a real vLLM server: events, replay, metrics and restarts, through the whole product.

Not part of the default run: `pytest -m real_engine`, with what `vllm_server.py` says in the environment. Each start of
vLLM on a CPU takes minutes.
"""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from fastapi.testclient import TestClient
from kvxray_backend.analysis.stream_findings import STALE_AFTER_S
from kvxray_engine.stream.joining import EVENTS_OF_BATCH

from tests.backend.served import serving, until
from tests.real_engine.relay import Relay
from tests.real_engine.vllm_server import (
    BLOCK_SIZE,
    NUM_BLOCKS,
    WHY_SKIPPED,
    VllmServer,
    interpreter,
    make_model,
    running_server,
    server_at,
    started,
)

pytestmark = pytest.mark.real_engine
SILENCE_S = STALE_AFTER_S + 2
LETTERS = "abcdefghij klmno"
SHARED = "".join(Random(1).choices(LETTERS, k=4 * BLOCK_SIZE))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vllm")


@pytest.fixture(scope="module")
def python() -> str:
    found = interpreter()
    if found is None:
        pytest.skip(WHY_SKIPPED)
    return found


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, folder: Path) -> Iterator[VllmServer]:
    running = running_server()
    if running is not None:
        yield running
        return
    python = request.getfixturevalue("python")
    with started(python, make_model(python, folder / "model"), folder / "vllm.log", free_ports()) as own:
        yield own


@pytest.fixture(scope="module")
def relay(server: VllmServer) -> Iterator[Relay]:
    """Between the server and the product, for all tests. What the server told before it found the relay nobody heard,
    so that it is cleared: all that is cached then was heard.
    """
    with Relay(server.events) as relay:
        prompts = (letters(seed, 2 * BLOCK_SIZE) for seed in count(1_000))
        hears(relay, lambda: server.complete(next(prompts)))
        server.reset()
        hears(relay, lambda: server.complete(next(prompts)))
        yield relay


def test_what_is_cached_and_what_metrics_say_agree(server: VllmServer, relay: Relay, tmp_path: Path) -> None:
    with watching(tmp_path, server, relay) as http:
        for number in range(6):
            server.complete(SHARED + letters(number, 40), max_tokens=8)
        caught_up(http, relay)
        # A page may have been read while a request ran; once all have ended nothing is held.
        figures = until(lambda: with_metrics(http, usage=server.told("vllm:kv_cache_usage_perc")))
        now = http.get("/api/residency").json()
        assert now["state"] == "connected"
        assert now["descriptor"]["block_sizes"] == [BLOCK_SIZE]
        assert int(server.label("vllm:cache_config_info", "num_gpu_blocks")) == NUM_BLOCKS
        assert figures["capacity_blocks"]["value"] == NUM_BLOCKS - 1, "the null block holds nothing"
        cached = figures["cached_blocks"]
        assert cached["certainty"] == "exact"
        assert 4 <= cached["value"] < NUM_BLOCKS
        assert cached["value"] == told_by_all_payloads(relay)
        assert figures["usage"]["value"] == 0
        assert any("blocks that requests hold" in one["sentence"] for one in now["explanations"])
        assert server.told("vllm:prefix_cache_hits_total") >= 5 * 4 * BLOCK_SIZE


def test_who_attaches_late_is_told_everything_by_replay(server: VllmServer, relay: Relay, tmp_path: Path) -> None:
    with watching(tmp_path, server, relay) as http:
        server.complete(letters(20, 70))
        caught_up(http, relay)
        assert http.get("/api/residency").json()["known_since"] == "1.0"
        assert cached_blocks(http) == told_by_all_payloads(relay)
        assert open_kinds(http) == set()


def test_what_our_side_loses_is_told_again(server: VllmServer, relay: Relay, tmp_path: Path) -> None:
    with watching(tmp_path, server, relay) as http:
        server.complete(letters(30, 70))
        caught_up(http, relay)
        relay.lose()
        lost = relay.num_lost
        hears(relay, lambda: server.complete(letters(31, 100), max_tokens=40))
        relay.pass_on()
        assert relay.num_lost > lost
        server.complete(letters(32, 70))
        caught_up(http, relay)
        assert cached_blocks(http) == told_by_all_payloads(relay)
        assert http.get("/api/residency").json()["known_since"] == "1.0"
        assert open_kinds(http) == set()


def test_without_replay_what_is_lost_stays_a_gap_and_is_said(server: VllmServer, relay: Relay, tmp_path: Path) -> None:
    with watching(tmp_path, server, relay, replay=False) as http:
        server.complete(letters(40, 70))
        until(lambda: cached_blocks(http))
        until(lambda: "joined_midstream" in open_kinds(http))
        relay.lose()
        hears(relay, lambda: server.complete(letters(41, 100)))
        relay.pass_on()
        server.complete(letters(42, 70))
        until(lambda: "seq_gap" in open_kinds(http))
        assert http.get("/api/residency").json()["figures"]["cached_blocks"]["certainty"] == "derived"


def test_a_reset_while_idle_arrives_with_the_next_request_and_is_shown_as_late(
    server: VllmServer, relay: Relay, tmp_path: Path
) -> None:
    with watching(tmp_path, server, relay) as http:
        server.complete(letters(50, 200))
        caught_up(http, relay)
        before, batches = cached_blocks(http), len(relay.heard)
        server.reset()
        time.sleep(SILENCE_S)
        assert (cached_blocks(http), len(relay.heard)) == (before, batches), "vLLM tells of a reset with the next step"
        server.complete(letters(51, 70))
        caught_up(http, relay)
        assert cached_blocks(http) == told_by_all_payloads(relay) < before
        late = until(lambda: found(http, "late_reset"))
        assert "reset" in late[0]["sentence"]


def test_an_engine_that_restarts_begins_another_epoch(python: str, folder: Path, tmp_path: Path) -> None:
    model, ports = make_model(python, folder / "model"), free_ports()
    server = server_at(ports)
    with Relay(server.events) as relay, watching(tmp_path, server, relay) as http:
        with started(python, model, folder / "first.log", ports):
            server.complete(letters(60, 200))
            until(lambda: relay.heard)
            caught_up(http, relay)
            assert cached_blocks(http) == told_by_all_payloads(relay) > 5
        num_before = len(relay.heard)
        with started(python, model, folder / "second.log", ports):
            server.complete(letters(61, 70))
            until(lambda: len(relay.heard) > num_before)
            until(lambda: found(http, "engine_restart"))
            caught_up(http, relay)
            del relay.heard[:num_before]
            assert http.get("/api/residency").json()["epoch"] == 2
            assert cached_blocks(http) == told_by_all_payloads(relay) < 5


@contextmanager
def watching(folder: Path, server: VllmServer, relay: Relay, *, replay: bool = True) -> Iterator[TestClient]:
    """The whole product, watching the server by way of the relay."""
    with serving(folder) as http:
        asked = {"name": "vllm", "events": relay.address, "metrics": server.metrics, "every_s": 1.0}
        answer = http.post("/api/engines", json={**asked, "replay": server.replay if replay else None})
        assert answer.status_code == 201, answer.text
        until(lambda: relay.num_watching, 60)
        yield http


def hears(relay: Relay, cause: Callable[[], object]) -> None:
    """Does it again until the relay has heard something of it: an engine dials again only now and then."""
    before = len(relay.heard)
    deadline = time.monotonic() + 120
    while len(relay.heard) == before:
        assert time.monotonic() < deadline, "the engine does not dial"
        cause()
        time.sleep(0.5)


def caught_up(http: TestClient, relay: Relay) -> None:
    """Waits until the product has applied the newest batch that the engine told."""

    def is_there() -> bool:
        now = http.get("/api/residency").json()
        return now["seq"] is not None and batch_of(now["seq"]) >= relay.heard[-1][0]

    time.sleep(0.5)  # what a step told may come a moment after its answer
    until(is_there, 60)


def batch_of(moment: str) -> int:
    return int(moment.partition(".")[2]) // EVENTS_OF_BATCH


def cached_blocks(http: TestClient) -> float | None:
    value: float | None = http.get("/api/residency").json()["figures"]["cached_blocks"]["value"]
    return value


def with_metrics(http: TestClient, usage: float) -> dict[str, Any] | None:
    """The figures, once metrics have been read that tell this usage."""
    figures: dict[str, Any] = http.get("/api/residency").json()["figures"]
    return figures if figures["capacity_blocks"]["value"] and figures["usage"]["value"] == usage else None


def found(http: TestClient, kind: str) -> list[dict[str, Any]]:
    findings: list[dict[str, Any]] = http.get("/api/findings", params={"kind": kind}).json()["findings"]
    return findings


def open_kinds(http: TestClient) -> set[str]:
    answer = http.get("/api/findings", params={"state": "open"}).json()
    return {finding["kind"] for finding in answer["findings"]}


def told_by_all_payloads(relay: Relay) -> int:
    """Blocks that are cached after everything that the engine sent, what was lost on the way to the product included:
    counted here, without the product's fold.
    """
    copies: Counter[int] = Counter()
    for _, payload in sorted(relay.heard):
        for event in msgspec.msgpack.decode(payload)[1]:
            if event["type"] == "AllBlocksCleared":
                copies.clear()
            else:
                change = 1 if event["type"] == "BlockStored" else -1
                copies.update(dict.fromkeys(event["block_hashes"], change))
    return sum(copies.values())


def letters(seed: int, number: int) -> str:
    return "".join(Random(seed).choices(LETTERS, k=number))


def free_ports() -> tuple[int, int, int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    api, events, replay = (one.getsockname()[1] for one in sockets)
    for one in sockets:
        one.close()
    return api, events, replay
