"""Our numbers beside those of a recorded vLLM 0.32 server itself, moment by moment: where both tell one thing they
agree, and where they rightly differ the product says why.

The server had 24 blocks of 32 tokens, one of them its null block. At each moment its metrics were read, and the batches
that it had sent by then were counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from kvxray_backend.sources.foreign.recording import Recording

from tests.backend.foreign.engine_rig import EngineRig
from tests.backend.foreign.payloads import RECORDINGS
from tests.backend.metrics.pages import recorded_log
from tests.backend.metrics.web import Web, text
from tests.backend.metrics.web import serving as web_serving
from tests.backend.served import serving, until

(FRAMES,) = (path for path in RECORDINGS if path.name.startswith("server-vllm-0.32.0"))
USABLE = 23
CACHED = {
    "start": None,
    "shared prefixes": 14,
    "6 concurrent, mid": 22,
    "after concurrent (pool 24 blocks of 32)": 22,
    "unique: eviction": 22,
    "after client abort": 22,
    "salted": 22,
    "after reset": 22,
    "end": 5,
}
"""Stored less removed, counted by hand out of the recording."""


class Server:
    """The recorded one: `at` brings it to the next moment."""

    def __init__(self, rig: EngineRig, web: Web) -> None:
        self.rig, self.web = rig, web
        self._payloads = [frame.payload for frame in Recording(FRAMES).frames()]

    def at(self, moment: dict[str, Any], http: TestClient) -> dict[str, Any]:
        """What the product shows once it has heard and read all of that moment."""
        self.web.answer = text("".join(f"{name} {value}\n" for name, value in moment["metrics"].items()))
        num_read, last = len(self.web.seen), moment["nframes"] - 1
        self.rig.publish(payloads=self._payloads[self.rig.next_seq : moment["nframes"]])
        until(lambda: len(self.web.seen) >= num_read + 2)
        until(lambda: last < 0 or _batch(http) == last)
        shown: dict[str, Any] = http.get("/api/residency").json()
        return shown


@contextmanager
def watched(folder: Path) -> Iterator[tuple[Server, TestClient]]:
    with web_serving(text("")) as web, EngineRig() as rig, serving(folder) as http:
        server = Server(rig, web)
        spec = {"name": "vllm", "events": rig.events, "metrics": f"{web.url}/metrics", "every_s": 1.0}
        assert http.post("/api/engines", json=spec).status_code == 201
        rig.wait_for_subscriber()
        yield server, http


@pytest.fixture(scope="module")
def moments(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """By name: what the product showed, and under `server` what the server said."""
    with watched(tmp_path_factory.mktemp("server")) as (server, http):
        return {moment["note"]: {**server.at(moment, http), "server": _sums(moment)} for moment in recorded_log()}


def test_what_is_cached_is_what_the_events_add_up_to(moments: dict[str, dict[str, Any]]) -> None:
    assert {note: _figure(shown, "cached_blocks") for note, shown in moments.items()} == CACHED
    heard = {note: shown for note, shown in moments.items() if shown["seq"] is not None}
    certainty = {note: shown["figures"]["cached_blocks"]["certainty"] for note, shown in heard.items()}
    # Six requests at once computed the same block: copies that nothing tells from reports of a hit.
    assert {note: _figure(shown, "maybe_blocks") for note, shown in heard.items() if certainty[note] != "exact"} == {
        "6 concurrent, mid": 4
    }


def test_the_capacity_is_the_servers_less_its_null_block_and_is_never_exceeded(
    moments: dict[str, dict[str, Any]],
) -> None:
    for shown in moments.values():
        assert _figure(shown, "capacity_blocks") == USABLE
        assert (_figure(shown, "cached_blocks") or 0) <= USABLE


def test_usage_and_hit_rate_are_the_servers_own(moments: dict[str, dict[str, Any]]) -> None:
    for note, shown in moments.items():
        told = shown["server"]
        assert _figure(shown, "usage") == told["vllm:kv_cache_usage_perc"], note
        assert _figure(shown, "running") == told["vllm:num_requests_running"], note
        assert _figure(shown, "waiting") == told["vllm:num_requests_waiting"], note
        queries = told["vllm:prefix_cache_queries_total"]
        rate = told["vllm:prefix_cache_hits_total"] / queries if queries else None
        assert _figure(shown, "hit_rate") == (pytest.approx(rate) if rate is not None else None), note


def test_preemptions_which_no_event_tells_come_from_metrics(moments: dict[str, dict[str, Any]]) -> None:
    assert _figure(moments["6 concurrent, mid"], "preemptions_per_s") == 0
    assert _figure(moments["after concurrent (pool 24 blocks of 32)"], "preemptions_per_s") > 0


@pytest.mark.parametrize("note", [note for note, cached in CACHED.items() if cached and note != "6 concurrent, mid"])
def test_cached_blocks_at_no_usage_are_explained(moments: dict[str, dict[str, Any]], note: str) -> None:
    sentence = f" while {CACHED[note]} of {USABLE} blocks are cached: in use are blocks that requests hold"
    assert any(sentence in one for one in _explanations(moments[note])), _explanations(moments[note])


def test_all_blocks_in_use_while_one_is_not_full_yet_is_explained_too(moments: dict[str, dict[str, Any]]) -> None:
    shown = moments["6 concurrent, mid"]
    assert (_figure(shown, "usage"), _figure(shown, "cached_blocks")) == (1.0, 22)
    assert any("100.0% of the cache is in use" in one for one in _explanations(shown)), _explanations(shown)


def test_hits_that_no_event_reports_are_explained(moments: dict[str, dict[str, Any]]) -> None:
    for note, shown in moments.items():
        says_so = any("does not report them in its events" in one for one in _explanations(shown))
        assert says_so == bool(_figure(shown, "hit_rate")), note


def test_a_reset_while_idle_shows_the_old_cache_until_the_next_request(moments: dict[str, dict[str, Any]]) -> None:
    """The server said that it had reset its cache; it told so with its next step only."""
    assert _figure(moments["after reset"], "cached_blocks") == _figure(moments["salted"], "cached_blocks") == 22
    assert _figure(moments["end"], "cached_blocks") == 5


def test_nothing_of_it_is_a_contradiction(moments: dict[str, dict[str, Any]]) -> None:
    assert {note: [one["kind"] for one in shown["findings"]] for note, shown in moments.items()} == dict.fromkeys(
        CACHED, []
    )


def _batch(http: TestClient) -> int | None:
    seq = http.get("/api/residency").json()["seq"]
    return int(seq.partition(".")[2]) >> 20 if seq is not None else None


def _figure(shown: dict[str, Any], name: str) -> Any:
    return shown["figures"][name]["value"]


def _explanations(shown: dict[str, Any]) -> list[str]:
    return [one["sentence"] for one in shown["explanations"]]


def _sums(moment: dict[str, Any]) -> dict[str, float]:
    """By metric, all of its series together."""
    sums: dict[str, float] = {}
    for series, value in moment["metrics"].items():
        name = series.partition("{")[0]
        sums[name] = sums.get(name, 0.0) + value
    return sums
