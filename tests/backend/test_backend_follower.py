"""Following a real publisher: joining in the middle, what is known then, and what is kept."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec
import pytest
from kvxray_backend.request_table_view import requests_view
from kvxray_backend.views import state_view
from kvxray_engine.stream.codec import decode, encode, encode_descriptor
from kvxray_engine.stream.columns import Columns
from kvxray_engine.stream.schema import BlockState
from kvxray_engine.stream.subscriber import Published, Subscriber
from kvxray_storage import history

from tests.backend.follower_rig import FollowerRig
from tests.backend.small_engine import SmallEngine
from tests.backend.viewer import MustFetch, Viewer


def test_joins_in_the_middle_by_snapshot_and_equals_the_engine(tmp_path: Path) -> None:
    with SmallEngine() as engine:
        engine.work(40)
        with FollowerRig(tmp_path, engine) as rig:
            rig.pump_until(lambda: rig.live.connection == "connected")
            for _ in range(30):
                engine.work(2)
                rig.pump()
            rig.pump_until_caught_up()
            engine.assert_folded(rig.block_map)
            assert rig.live.epoch == 1
            assert rig.live.counters.gaps == 0
            assert not rig.live.findings


def test_history_reaches_back_before_the_join_as_far_as_replay_does(tmp_path: Path) -> None:
    with SmallEngine() as engine:
        engine.work(40)
        with FollowerRig(tmp_path, engine) as rig:
            rig.pump_until_caught_up()
            assert rig.log.flush(5)
            key = rig.key
            stored = history.events(rig.database, key, 0, 10**6)
            assert [row.seq for row in stored] == list(range(engine.recorder.next_seq))
            assert history.gaps(rig.database, key, 10) == []


def test_history_begins_where_replay_can_and_calls_nothing_missing(tmp_path: Path) -> None:
    with SmallEngine(replay_messages=5) as engine:
        engine.work(40)
        with FollowerRig(tmp_path, engine) as rig:
            rig.pump_until_caught_up()
            assert rig.log.flush(5)
            key = rig.key
            stored = history.events(rig.database, key, 0, 10**6)
            assert 0 < stored[0].seq < stored[-1].seq == engine.recorder.next_seq - 1
            assert history.gaps(rig.database, key, 10) == []


def test_following_late_without_snapshots_knows_only_what_it_was_told(tmp_path: Path) -> None:
    with SmallEngine() as engine:
        engine.work(40)
        with FollowerRig(tmp_path, engine, snapshots=False, replay=False) as rig:
            rig.pump_until(lambda: rig.live.connection == "connected")
            engine.work(40)
            rig.pump_until_caught_up()
            counts = rig.block_map.counts()
            assert 0 < counts[BlockState.unknown] < rig.block_map.descriptor.usable_blocks
            engine.assert_folded(rig.block_map, outside_unknown=True)
            assert rig.open_kinds() == {"no_snapshot"}
            state = state_view(rig.live)
            assert state is not None
            assert state.figures["used"].value is None
            for name in ("used", "leaked", "running", "waiting", "tokens_per_s"):
                assert state.figures[name].certainty == "derived"
                assert state.figures[name].taints == ("no_snapshot:engine:1",)


def test_no_answer_from_the_replay_address_is_told_until_a_snapshot_comes(tmp_path: Path) -> None:
    with SmallEngine() as engine:
        engine.add("early", prompt=100, output=8)
        engine.step(3)
        with FollowerRig(tmp_path, engine) as rig:
            answering = rig.subscriber
            rig.subscriber = Subscriber(engine.publisher.events_address, "tcp://127.0.0.1:1")
            rig.pump_until(lambda: rig.live.connection == "joining")
            rig.let_time_pass(2.1)
            rig.pump_until(lambda: rig.live.connection == "connected")
            (finding,) = rig.live.findings
            assert finding.sentence == (
                "The engine's replay address does not answer: blocks are unknown until their events tell."
            )
            state = state_view(rig.live)
            assert state is not None
            for name in ("used", "leaked", "running", "waiting"):
                figure = state.figures[name]
                assert (figure.value, figure.certainty, figure.taints) == (None, "derived", (finding.id,))
            engine.step(20)
            engine.add("late", prompt=50, output=200)
            engine.step(3)
            rig.pump_until_caught_up(hurry_s=0.2)
            late, early = requests_view(rig.live, 10).requests
            # Its end tells of its tokens, but not what it found in the cache.
            assert (early.prompt_tokens, early.output_tokens, early.hit_tokens) == (100, 8, None)
            assert (late.prompt_tokens, late.hit_tokens) == (50, 32)
            rig.subscriber.close()
            rig.subscriber = answering
            rig.pump_until(lambda: not rig.live.findings)
            engine.assert_folded(rig.block_map)
            state = state_view(rig.live)
            assert state is not None
            running = state.figures["running"]
            assert (running.value, running.certainty, running.taints) == (1, "exact", ())
            assert requests_view(rig.live, 10).requests[1].hit_tokens == 0
            assert rig.changes[-1].sentence.endswith("until the engine gave a snapshot.")


def test_a_changed_descriptor_is_followed_and_sends_viewers_for_a_snapshot(tmp_path: Path) -> None:
    with SmallEngine() as engine, FollowerRig(tmp_path, engine) as rig:
        engine.work(10)
        rig.pump_until_caught_up()
        viewer = Viewer(rig.live)
        recorder = engine.recorder
        larger = msgspec.structs.replace(engine.publisher.descriptor, num_blocks=129, pools=())
        header = msgspec.structs.replace(
            decode(engine.publisher.replay.between(0, 0)[0][1]).header, type="descriptor", names=(),
            wire_seq=recorder.next_wire_seq, seq0=recorder.next_seq, n=0, req0=recorder.next_req,
            hash0=recorder.next_hash, descriptor=encode_descriptor(larger), totals=None,
        )  # fmt: skip
        rig.pump(extra=[Published(encode(header, Columns.empty()))])
        assert rig.block_map.num_blocks == 129
        assert rig.live.counters.bad_messages == 0
        with pytest.raises(MustFetch):
            viewer.update()
        viewer.fetch()
        viewer.assert_shows(rig.live)
        assert rig.live.tail.since(0, 10**6, {})[-1].seq == recorder.next_seq - 1
        assert rig.log.flush(5)
        assert history.epochs(rig.database, "engine")[0].descriptor.num_blocks == 129


def test_secrets_in_names_are_digested_before_they_are_kept(tmp_path: Path) -> None:
    with SmallEngine() as engine:
        engine.add("before", session="secret-session", salt="secret-salt")
        engine.step()
        with FollowerRig(tmp_path, engine) as rig:
            rig.pump_until_caught_up()
            engine.add("after", session="secret-session", salt="secret-salt")
            engine.step()
            rig.pump_until_caught_up()
            names = {name.id: name for name in rig.block_map.requests.names.values()}
            assert names["before"].session == names["after"].session != "secret-session"
            assert names["before"].salt == names["after"].salt != ""
        files = b"".join(path.read_bytes() for path in tmp_path.iterdir())
        assert b"after" in files
        assert b"secret" not in files


def test_a_locked_database_is_said_and_what_was_held_back_is_stored_when_it_is_free_again(tmp_path: Path) -> None:
    with SmallEngine() as engine, FollowerRig(tmp_path, engine) as rig:
        engine.work(5)
        rig.pump_until_caught_up()
        rig.pump_until(lambda: rig.log.flush(5))
        intruder = sqlite3.connect(tmp_path / "events.db", isolation_level=None)
        intruder.execute("BEGIN EXCLUSIVE")

        def is_told() -> bool:
            engine.work(1)
            return "storage" in rig.open_kinds()

        rig.pump_until(is_told, timeout_s=40)
        (told,) = [finding for finding in rig.live.findings if finding.kind == "storage"]
        assert told.sentence.startswith("New events are not being stored. ")
        intruder.execute("ROLLBACK")
        intruder.close()

        def is_over() -> bool:
            engine.work(1)
            return "storage" not in rig.open_kinds()

        rig.pump_until(is_over, timeout_s=40)
        rig.pump_until_caught_up()
        rig.pump_until(lambda: rig.log.flush(5))
        key = rig.key
        assert [row.seq for row in history.events(rig.database, key, 0, 10**6)] == list(range(engine.recorder.next_seq))
