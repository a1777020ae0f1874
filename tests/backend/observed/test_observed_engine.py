"""An engine is followed over real sockets, whatever becomes of it and of its messages."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest
from kvxray_backend.analysis import stream_findings
from kvxray_backend.observed import event_thread, zmq_listener
from kvxray_backend.observed.spec import ObserveSpec
from kvxray_backend.sources.foreign import batch_sequencer
from kvxray_backend.sources.foreign.followed_source import FollowedSource
from kvxray_backend.sources.foreign.zmq_stream import ZmqStream
from kvxray_storage import history

from tests.backend.foreign.engine_rig import EngineRig, payload_of
from tests.backend.observed.watching import kinds, num_cached, spec_of, stored_in, until, watching


@contextmanager
def two_ports() -> Iterator[tuple[EngineRig, EngineRig]]:
    """Two engines at ports that follow each other, as ranks have them."""
    while True:
        with ExitStack() as stack:
            first = stack.enter_context(EngineRig())
            host, _, port = first.events.rpartition(":")
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", int(port) + 1)) == 0:
                    continue
            yield first, stack.enter_context(EngineRig(f"{host}:{int(port) + 1}"))
            return


def test_what_a_publisher_tells_is_cached_as_soon_as_it_is_told(tmp_path: Path) -> None:
    with stored_in(tmp_path) as stored, EngineRig() as rig, watching(*stored, spec_of(rig)) as engine:
        assert (engine.connection, engine.ranks) == ("waiting", {})
        rig.wait_for_subscriber()
        rig.publish(20)
        until(lambda: num_cached(engine) == 20)
        until(lambda: engine.connection == "connected")
        assert kinds(engine) == []
        assert engine.ranks["e"].followed.confidence == "exact"


def test_who_comes_late_says_what_is_not_known(tmp_path: Path) -> None:
    with stored_in(tmp_path) as stored, EngineRig() as rig:
        rig.publish(5)
        with watching(*stored, spec_of(rig)) as engine:
            rig.wait_for_subscriber()
            rig.publish(5)
            until(lambda: num_cached(engine) == 5)
            until(lambda: kinds(engine) == ["joined_midstream"])
            assert engine.ranks["e"].followed.confidence == "degraded"


def test_who_comes_late_and_may_ask_knows_everything(tmp_path: Path) -> None:
    with stored_in(tmp_path) as stored, EngineRig() as rig:
        rig.publish(5)
        with watching(*stored, spec_of(rig, replay=True)) as engine:
            rig.wait_for_subscriber()
            rig.publish(5)
            until(lambda: num_cached(engine) == 10)
            assert engine.ranks["e"].followed.confidence == "exact"


def test_an_engine_that_only_decodes_is_silent_without_fault(tmp_path: Path) -> None:
    with stored_in(tmp_path) as stored, EngineRig() as rig, watching(*stored, spec_of(rig, role="decode")) as engine:
        rig.wait_for_subscriber()
        until(lambda: engine.connection == "no_stream")
        assert kinds(engine) == []
        rig.publish(1)
        until(lambda: engine.connection == "connected")


def test_an_engine_that_falls_silent_is_stale_until_it_speaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_findings, "STALE_AFTER_S", 0.5)
    with stored_in(tmp_path) as (database, log), EngineRig() as rig:
        with watching(database, log, spec_of(rig)) as engine:
            rig.wait_for_subscriber()
            rig.publish(1)
            until(lambda: engine.connection == "stale" and kinds(engine) == ["stale_stream"])
            monkeypatch.setattr(stream_findings, "STALE_AFTER_S", 60.0)
            rig.publish(1)
            until(lambda: engine.connection == "connected" and kinds(engine) == [])
        assert log.flush(10)
        assert [(row.kind, row.state) for row in history.findings(database, "e")] == [("stale_stream", "ended")]


@pytest.mark.parametrize("old_framing", [False, True])
def test_an_engine_that_is_idle_is_known_from_its_replay_alone(tmp_path: Path, old_framing: bool) -> None:
    with stored_in(tmp_path) as stored, EngineRig(old_framing=old_framing) as rig:
        rig.publish(5)
        with watching(*stored, spec_of(rig, replay=True)) as engine:
            until(lambda: num_cached(engine) == 5)
            assert engine.ranks["e"].followed.confidence == "exact"
            rig.wait_for_subscriber()
            rig.publish(1)
            until(lambda: num_cached(engine) == 6)
            assert list(engine.ranks) == ["e"]
            assert kinds(engine) == []


def test_an_idle_engine_whose_buffer_has_lost_its_beginning_is_known_from_there_on(tmp_path: Path) -> None:
    with stored_in(tmp_path) as stored, EngineRig(buffer_steps=3) as rig:
        rig.publish(5)
        with watching(*stored, spec_of(rig, replay=True)) as engine:
            until(lambda: num_cached(engine) == 3)
            until(lambda: kinds(engine) == ["joined_midstream"])


def test_ranks_with_a_port_each_are_sources_of_their_own(tmp_path: Path) -> None:
    with (
        stored_in(tmp_path) as stored,
        two_ports() as (first, second),
        watching(*stored, ObserveSpec(name="e", events=first.events, ranks=2)) as engine,
    ):
        for rig, rank, count in ((first, 0, 3), (second, 1, 4)):
            rig.wait_for_subscriber()
            rig.publish(payloads=[payload_of(seq, life=rank, rank=rank) for seq in range(count)])
        until(lambda: num_cached(engine) == 3 and num_cached(engine, "e/1") == 4)
        assert {rank.name: rank.rank for rank in engine.ranks.values()} == {"e": 0, "e/1": 1}


def test_ranks_that_share_a_socket_and_a_count_are_sources_of_their_own(tmp_path: Path) -> None:
    with stored_in(tmp_path) as stored, EngineRig() as rig, watching(*stored, spec_of(rig)) as engine:
        rig.wait_for_subscriber()
        rig.publish(payloads=[payload_of(seq, rank=seq % 2) for seq in range(10)])
        until(lambda: num_cached(engine) == 5 and num_cached(engine, "e/1") == 5)
        assert kinds(engine) == []


def test_ranks_that_share_a_socket_and_count_alone_have_no_gaps(tmp_path: Path) -> None:
    with stored_in(tmp_path) as stored, EngineRig() as rig, watching(*stored, spec_of(rig)) as engine:
        rig.wait_for_subscriber()
        for seq in range(5):
            for rank in (0, 1):
                rig.send(rig.topic, seq.to_bytes(8, "big"), payload_of(seq, life=rank, rank=rank))
        until(lambda: num_cached(engine) == 5 and num_cached(engine, "e/1") == 5)
        assert kinds(engine) == []


def test_two_engines_at_one_address_are_told_apart_by_their_topics(tmp_path: Path) -> None:
    with stored_in(tmp_path) as stored, EngineRig() as rig, watching(*stored, spec_of(rig)) as engine:
        rig.wait_for_subscriber()
        rig.publish(2)
        rig.topic = b"kv@10.0.0.2@model"
        rig.next_seq = 0
        rig.publish(3)
        until(lambda: num_cached(engine) == 2 and num_cached(engine, "e/kv@10.0.0.2@model") == 3)


def test_an_engine_that_is_killed_and_comes_back_at_the_same_address_is_heard_again(tmp_path: Path) -> None:
    with stored_in(tmp_path) as stored:
        with EngineRig() as rig:
            spec = spec_of(rig, replay=True)
            with_rig = watching(*stored, spec)
            engine = with_rig.__enter__()
            rig.wait_for_subscriber()
            rig.publish(3)
            until(lambda: num_cached(engine) == 3)
        try:
            until(lambda: "no connection" in engine.trouble)
            with EngineRig(rig.events, replay=rig.replay) as again:
                again.wait_for_subscriber()
                again.publish(payloads=[payload_of(seq, life=1) for seq in range(2)])
                until(lambda: num_cached(engine) == 2)
                assert (engine.ranks["e"].epoch, engine.trouble) == (2, "")
        finally:
            with_rig.__exit__(None, None, None)


def test_garbage_costs_a_count_and_makes_what_is_known_uncertain(tmp_path: Path) -> None:
    with stored_in(tmp_path) as (database, log), EngineRig() as rig:
        with watching(database, log, spec_of(rig)) as engine:
            rig.wait_for_subscriber()
            rig.publish(2)
            rig.publish(payloads=[b"\xff no batch"])
            rig.send(b"one frame")
            rig.send(rig.topic, b"short", b"payload")
            rig.publish(2)
            until(lambda: num_cached(engine) == 4)
            assert engine.ranks["e"].followed.confidence == "degraded"
            until(lambda: len(history.findings(database, "e")) == 2)
        found = {row.kind: row.numbers for row in history.findings(database, "e")}
        assert found["malformed"]["frames"] == 2
        assert found["unknown_or_partial_event"]["unreadable"] == 1


def test_a_flood_that_is_understood_too_slowly_is_dropped_counted_and_told_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zmq_listener, "ZmqStream", partial(ZmqStream, max_bytes=20_000))
    with stored_in(tmp_path) as (database, log), EngineRig() as rig:
        with watching(database, log, spec_of(rig)) as engine:
            rig.wait_for_subscriber()
            with engine.lock:
                rig.publish(2_000)
                until(lambda: engine.num_dropped > 0)
            rig.publish(1)
            until(lambda: "seq_gap" in kinds(engine))
            assert engine.ranks["e"].followed.confidence == "degraded"
            assert rig.longest_send_s < 1.0
        assert log.flush(10)
        (row,) = history.epochs(database, "e")
        assert history.gaps(database, row.key, 10)


def test_who_is_behind_does_not_take_his_own_delay_for_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_findings, "STALE_AFTER_S", 2.0)
    told: list[str] = []
    monkeypatch.setattr(FollowedSource, "advance", _noting_staleness(FollowedSource.advance, told))
    with stored_in(tmp_path) as stored, EngineRig() as rig, watching(*stored, spec_of(rig)) as engine:
        rig.wait_for_subscriber()
        stalled_until = time.monotonic() + 4.0
        with engine.lock:
            while time.monotonic() < stalled_until:
                rig.publish(20)
                time.sleep(0.02)
        until(lambda: num_cached(engine) == rig.next_seq)
        assert told == []
        until(lambda: told)  # nothing more comes: now it is silent


def test_what_was_heard_and_waits_for_a_batch_that_is_missing_is_no_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_findings, "STALE_AFTER_S", 1.0)
    monkeypatch.setattr(batch_sequencer, "MAX_HOLD_NS", 4_000_000_000)
    told: list[str] = []
    monkeypatch.setattr(FollowedSource, "advance", _noting_staleness(FollowedSource.advance, told))
    with stored_in(tmp_path) as stored, EngineRig() as rig, watching(*stored, spec_of(rig)) as engine:
        rig.wait_for_subscriber()
        rig.publish(2)
        until(lambda: num_cached(engine) == 2)
        rig.publish(1, is_heard=False)
        rig.publish(3)
        until(lambda: num_cached(engine) == 5)
        assert told == []


def _noting_staleness(advance: Callable[..., None], told: list[str]) -> Callable[..., None]:
    def noted(followed: FollowedSource, now_ns: int, **more: stream_findings.Work | None) -> None:
        advance(followed, now_ns, **more)
        if followed.confidence == "stale":
            told.append(followed.name)

    return noted


def test_a_thread_that_stumbles_joins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_thread, "AFTER_A_FAULT_S", 0.01)
    apply = FollowedSource.take

    def stumble_once(self: FollowedSource, *steps: object) -> None:
        monkeypatch.setattr(FollowedSource, "take", apply)
        raise RuntimeError("a mistake of ours")

    with stored_in(tmp_path) as stored, EngineRig() as rig, watching(*stored, spec_of(rig, replay=True)) as engine:
        monkeypatch.setattr(FollowedSource, "take", stumble_once)
        rig.publish(3)
        until(lambda: num_cached(engine) == 3)
        assert engine.ranks["e"].followed.confidence == "exact"
