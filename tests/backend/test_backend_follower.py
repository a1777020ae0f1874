"""Following a real publisher: joining, loss on the wire and at the recorder, restarts, silence, nonsense."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

import msgspec
import numpy as np
import pytest
from kvxray_backend.analysis.leak_search import find_leaks
from kvxray_backend.analysis.stream_health import STALE_AFTER_S
from kvxray_backend.moments import iso_time
from kvxray_backend.request_table_view import requests_view
from kvxray_backend.views import source_view, state_view
from kvxray_backend.windows import RATE_WINDOW_NS
from kvxray_engine.stream.codec import decode, encode, encode_descriptor
from kvxray_engine.stream.columns import Columns
from kvxray_engine.stream.schema import BlockState, Kind
from kvxray_engine.stream.subscriber import Malformed, Published, Subscriber
from kvxray_storage import history

from tests.backend.follower_rig import FollowerRig, ShiftedClock
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


def test_a_message_lost_on_the_wire_is_fetched_again(tmp_path: Path) -> None:
    with SmallEngine() as engine:
        engine.work(5)
        with FollowerRig(tmp_path, engine, wire_loss=0.05) as rig:
            rig.pump_until(lambda: rig.live.connection == "connected")
            for _ in range(200):
                engine.work(1)
                rig.pump(0)
            rig.pump_until_caught_up()
            assert rig.num_lost > 3
            engine.assert_folded(rig.block_map)
            assert rig.live.counters.gaps == 0
            assert rig.log.flush(5)
            key = rig.key
            assert [row.seq for row in history.events(rig.database, key, 0, 10**6)] == list(
                range(engine.recorder.next_seq)
            )


def test_a_message_lost_at_the_end_is_missed_by_the_heartbeat(tmp_path: Path) -> None:
    with SmallEngine() as engine:
        engine.work(5)
        with FollowerRig(tmp_path, engine) as rig:
            rig.pump_until_caught_up()
            rig.wire_loss = 1.0
            engine.work(1)
            rig.pump_until_caught_up()
            assert rig.num_lost == 1
            engine.assert_folded(rig.block_map)


def test_messages_dropped_at_the_recorder_cost_history_but_not_exactness(tmp_path: Path) -> None:
    with SmallEngine(recorder_loss=0.05) as engine:
        engine.work(5)
        with FollowerRig(tmp_path, engine, wire_loss=0.05) as rig:
            rig.pump_until(lambda: rig.live.connection == "connected")
            for _ in range(200):
                engine.work(1)
                rig.pump(0)
            engine.handover.loss = 0.0
            engine.finish()
            rig.pump_until_caught_up()
            rig.pump_until(lambda: "gap" not in rig.open_kinds())
            assert engine.handover.num_refused > 3
            engine.assert_folded(rig.block_map)
            rig.block_map.check_integrity()
            assert rig.live.counters.gaps > 0
            assert rig.live.counters.drops == engine.handover.num_refused
            assert rig.log.flush(5)
            gaps = history.gaps(rig.database, rig.key, 1000)
            assert sum(gap.wire_seq1 - gap.wire_seq0 + 1 for gap in gaps) >= engine.handover.num_refused - 1
            assert {finding.state for finding in rig.changes if finding.kind == "gap"} == {"open", "ended"}


@pytest.mark.parametrize("where", ["wire", "recorder"])
def test_without_replay_and_snapshots_a_gap_is_shown_and_nothing_else_is_wrong(tmp_path: Path, where: str) -> None:
    with SmallEngine() as engine, FollowerRig(tmp_path, engine, snapshots=False, replay=False) as rig:
        rig.pump_until(lambda: rig.live.connection == "connected")
        engine.work(30)
        rig.pump_until_caught_up()
        engine.assert_folded(rig.block_map)
        rig.wire_loss = 0.05 if where == "wire" else 0.0
        engine.handover.loss = 0.05 if where == "recorder" else 0.0
        for _ in range(100):
            engine.work(2)
            rig.pump_until_caught_up(hurry_s=0.2)
            engine.assert_folded(rig.block_map, outside_unknown=True)
        assert rig.num_lost + engine.handover.num_refused > 3
        assert rig.live.counters.gaps > 0
        assert "gap" in rig.open_kinds()
        assert rig.block_map.counts()[BlockState.unknown] > 0


def test_a_snapshot_makes_everything_exact_again_and_the_gap_stays_in_history(tmp_path: Path) -> None:
    with SmallEngine() as engine, FollowerRig(tmp_path, engine, replay=False) as rig:
        rig.pump_until(lambda: rig.live.connection == "connected")
        engine.work(30)
        rig.pump_until_caught_up()
        rig.wire_loss = 1.0
        engine.work(3)
        rig.pump_until(lambda: rig.num_lost == 3)
        rig.wire_loss = 0.0
        engine.work(3)
        rig.pump_until_caught_up()
        rig.pump_until(lambda: "gap" not in rig.open_kinds())
        engine.assert_folded(rig.block_map)
        assert rig.live.counters.gaps == 1
        assert rig.log.flush(5)
        (gap,) = history.gaps(rig.database, rig.key, 10)
        assert gap.wire_seq1 - gap.wire_seq0 + 1 == 3
        (stored,) = [row for row in history.findings(rig.database, "engine") if row.kind == "gap"]
        assert stored.state == "ended"
        assert stored.sentence == f"3 messages with {gap.seq1 - gap.seq0 + 1} events of the stream are missing."


def test_what_arrives_late_is_stored_and_its_gap_is_repaired(tmp_path: Path) -> None:
    with SmallEngine() as engine, FollowerRig(tmp_path, engine, replay=False) as rig:
        rig.pump_until(lambda: rig.live.connection == "connected")
        engine.work(10)
        rig.pump_until_caught_up()
        rig.wire_loss = 1.0
        engine.work(2)
        rig.pump_until(lambda: rig.num_lost == 2)
        rig.wire_loss = 0.0
        engine.work(3)
        rig.pump_until_caught_up()
        late = [Published(payload) for _, payload in engine.publisher.replay.between(10, 11)]
        rig.pump(extra=late)
        assert rig.log.flush(5)
        key = rig.key
        (gap,) = history.gaps(rig.database, key, 10)
        assert gap.repaired_ns is not None
        assert [row.seq for row in history.events(rig.database, key, 0, 10**6)] == list(range(engine.recorder.next_seq))


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


def test_a_restarted_engine_is_a_new_epoch_and_the_old_one_stays(tmp_path: Path) -> None:
    with SmallEngine() as engine, FollowerRig(tmp_path, engine) as rig:
        engine.work(20)
        rig.pump_until_caught_up()
        first_seq = rig.live.seq
        with SmallEngine(seed=5) as successor:
            rig.connect(successor)
            successor.work(20)
            rig.pump_until(lambda: rig.live.epoch == 2)
            rig.pump_until_caught_up()
            successor.assert_folded(rig.block_map)
            assert rig.log.flush(5)
            old, new = history.epochs(rig.database, "engine")
            assert (old.epoch, old.last_seq, new.epoch) == (1, first_seq, 2)
            assert old.ended_ns is not None
            assert new.ended_ns is None
            (restart,) = [finding for finding in rig.changes if finding.kind == "restart"]
            assert restart.sentence == "The engine began anew: epoch 2 follows epoch 1."


def test_late_messages_of_an_earlier_life_are_ignored(tmp_path: Path) -> None:
    with SmallEngine() as engine, FollowerRig(tmp_path, engine) as rig:
        engine.work(5)
        rig.pump_until_caught_up()
        late = [payload for _, payload in engine.publisher.replay.between(0, 100)]
        with SmallEngine(seed=5) as successor:
            rig.connect(successor)
            successor.work(5)
            rig.pump_until(lambda: rig.live.epoch == 2)
            rig.pump(extra=[Published(payload) for payload in late])
            assert rig.live.epoch == 2
            rig.pump_until_caught_up()
            successor.assert_folded(rig.block_map)


@pytest.mark.parametrize("claimed_s", [0, 10**6])
def test_a_stray_message_of_another_life_does_not_end_the_real_one(tmp_path: Path, claimed_s: int) -> None:
    with SmallEngine() as engine, FollowerRig(tmp_path, engine) as rig:
        engine.work(5)
        rig.pump_until_caught_up()
        _, payload = next(iter(engine.publisher.replay.between(0, 100)))
        message = decode(payload)
        t0_ns = message.header.t0_wall_ns + claimed_s * 10**9
        stray = msgspec.structs.replace(message.header, incarnation="stray", t0_wall_ns=t0_ns)
        rig.pump(extra=[Published(encode(stray, message.columns))])
        assert rig.live.connection == "joining"
        rig.let_time_pass(STALE_AFTER_S + 1)
        rig.pump()
        engine.work(5)
        rig.pump_until(lambda: rig.live.connection == "connected")
        rig.pump_until_caught_up()
        engine.assert_folded(rig.block_map)
        assert rig.live.epoch == 1
        assert len(history.epochs(rig.database, "engine")) == 1


def test_following_again_after_a_restart_of_the_backend_goes_on_with_the_history(tmp_path: Path) -> None:
    with SmallEngine() as engine:
        with FollowerRig(tmp_path, engine) as rig:
            engine.work(20)
            rig.pump_until_caught_up()
        engine.work(20)
        with FollowerRig(tmp_path, engine) as rig:
            rig.pump_until_caught_up()
            engine.work(5)
            rig.pump_until_caught_up()
            assert rig.live.epoch == 1
            assert rig.log.flush(5)
            key = rig.key
            stored = [row.seq for row in history.events(rig.database, key, 0, 10**6)]
            assert stored == list(range(engine.recorder.next_seq))
            assert not [finding for finding in rig.changes if finding.kind == "restart"]


def test_what_happened_while_the_backend_was_down_is_a_gap_when_replay_lacks_it(tmp_path: Path) -> None:
    with SmallEngine(replay_messages=5) as engine:
        with FollowerRig(tmp_path, engine) as rig:
            engine.work(20)
            rig.pump_until_caught_up()
            seen = rig.live.seq
        engine.work(20)
        with FollowerRig(tmp_path, engine) as rig:
            rig.pump_until_caught_up()
            assert rig.log.flush(5)
            key = rig.key
            (gap,) = history.gaps(rig.database, key, 10)
            assert gap.seq0 == seen + 1
            stored = [row.seq for row in history.events(rig.database, key, 0, 10**6)]
            assert stored == [*range(stored[0], gap.seq0), *range(gap.seq1 + 1, engine.recorder.next_seq)]
            engine.assert_folded(rig.block_map)


def test_silence_is_told_with_its_beginning_and_ends_when_the_engine_speaks(tmp_path: Path) -> None:
    with SmallEngine() as engine, FollowerRig(tmp_path, engine) as rig:
        engine.work(5)
        rig.pump_until_caught_up()
        rig.hear_nothing()
        rig.let_time_pass(3.1)
        rig.pump()
        assert rig.live.connection == "stale"
        assert rig.open_kinds() == {"stale"}
        assert rig.block_map.counts()[BlockState.unknown] == 0
        rig.let_time_pass(26)
        rig.connect(engine)
        rig.pump_until(lambda: rig.live.connection == "connected")
        assert not rig.live.findings
        assert re.fullmatch(r"The engine was not heard for (29|3\d) s\.", rig.changes[-1].sentence)


def test_an_engine_that_comes_back_and_is_idle_is_told_with_the_time_it_was_heard(tmp_path: Path) -> None:
    with SmallEngine() as engine, FollowerRig(tmp_path, engine) as rig:
        engine.work(5)
        rig.pump_until_caught_up()
        rig.hear_nothing()
        rig.let_time_pass(3.1)
        rig.pump()
        rig.let_time_pass(26)
        began_ns = rig.clock.wall_ns()
        with SmallEngine(seed=5, clock=rig.clock) as successor:
            rig.connect(successor)
            rig.pump_until(lambda: rig.live.epoch == 2)
            assert rig.block_map.next_seq == 0
            assert not rig.live.findings
            told = {finding.kind: finding for finding in rig.changes}
            assert (told["restart"].seq0, told["restart"].seq1, told["restart"].epoch) == (0, 0, 2)
            assert began_ns <= told["restart"].time_ns <= rig.clock.wall_ns()
            assert told["restart"].ended_ns == told["restart"].time_ns
            assert re.fullmatch(r"The engine was not heard for (29|3\d) s\.", told["stale"].sentence)
            state, source = state_view(rig.live), source_view(rig.live)
            assert state is not None
            assert (state.seq, source.last_seq, source.wire_seq) == (None, None, None)
            assert iso_time(began_ns) <= state.time <= iso_time(rig.clock.wall_ns())
            assert told["restart"].ended_at == told["restart"].time
            # Nothing has happened yet, and that is known only since it was first heard.
            assert state.figures["allocations_per_s"].value is None
            rig.let_time_pass(2)
            rig.pump_until(lambda: rig.live.engine_time.t_ns > began_ns + 2 * 10**9)
            successor.work(1)
            rig.pump_until_caught_up()
            watched = rig.live.windows.since(RATE_WINDOW_NS, rig.live.engine_time.t_ns)
            assert watched is not None
            assert 2 <= watched[1] < 10


def test_a_leak_ends_with_its_engine_and_is_not_told_as_released(tmp_path: Path) -> None:
    clock = ShiftedClock()
    with SmallEngine(leak=True, clock=clock) as engine, FollowerRig(tmp_path, engine, clock=clock) as rig:
        engine.add("victim", prompt=100, output=50)
        engine.step(5)
        engine.abort("victim")
        engine.step()
        rig.pump_until_caught_up()
        rig.let_time_pass(10)
        rig.pump_until(lambda: "leak" in rig.open_kinds())
        (leak,) = rig.live.findings
        last_heard_ns = rig.live.engine_time.t_ns
        rig.hear_nothing()
        rig.let_time_pass(29)
        with SmallEngine(seed=5, clock=clock) as successor:
            rig.connect(successor)
            rig.pump_until(lambda: rig.live.epoch == 2)
            assert not rig.live.findings
            assert not rig.live.picture.leaked.any()
            (ended,) = [finding for finding in rig.changes if finding.kind == "leak" and finding.state == "ended"]
            assert (
                ended.sentence
                == f"Leak: request victim, aborted, held {leak.numbers['blocks']} blocks until the engine ended."
            )
            assert (ended.id, ended.epoch, ended.ended_ns) == (leak.id, 1, last_heard_ns)


def test_a_leak_found_in_an_idle_engine_does_not_end_when_it_works_again(tmp_path: Path) -> None:
    clock = ShiftedClock()
    with SmallEngine(leak=True, clock=clock) as engine, FollowerRig(tmp_path, engine, clock=clock) as rig:
        engine.add("victim", prompt=100, output=50)
        engine.step(5)
        engine.abort("victim")
        engine.step()
        rig.pump_until_caught_up()
        rig.let_time_pass(10)
        rig.pump_until(lambda: "leak" in rig.open_kinds())
        engine.add("next", prompt=100, output=50)
        engine.step()
        rig.pump_until_caught_up()
        rig.let_time_pass(1)
        rig.pump()
        assert find_leaks(rig.block_map, rig.live.engine_time) == []
        assert rig.open_kinds() == {"leak"}
        assert len(rig.live.leaks) == 1


def test_a_leak_that_another_backend_found_ends_with_its_engine_too(tmp_path: Path) -> None:
    clock = ShiftedClock()
    with SmallEngine(leak=True, clock=clock) as engine:
        with FollowerRig(tmp_path, engine, clock=clock) as rig:
            engine.add("victim", prompt=100, output=50)
            engine.step(5)
            engine.abort("victim")
            engine.step()
            rig.pump_until_caught_up()
            rig.let_time_pass(10)
            rig.pump_until(lambda: "leak" in rig.open_kinds())
            blocks = int(rig.live.findings[0].numbers["blocks"])
            rig.pump_until(lambda: rig.log.flush(5))
        with FollowerRig(tmp_path, engine, clock=clock) as rig:
            # Joined anew while the engine is idle: still the same leak.
            rig.pump_until(lambda: bool(rig.live.leaks))
            assert rig.changes == []
            assert rig.log.flush(5)
    with SmallEngine(seed=5, clock=clock) as successor, FollowerRig(tmp_path, successor, clock=clock) as rig:
        rig.pump_until(lambda: rig.live.epoch == 2)
        assert not rig.live.findings
        (ended,) = [finding for finding in rig.changes if finding.kind == "leak"]
        assert ended.sentence == f"Leak: victim held {blocks} blocks until the engine ended."


def test_a_leak_stays_open_over_a_gap_which_hides_its_holder(tmp_path: Path) -> None:
    clock = ShiftedClock()
    with (
        SmallEngine(leak=True, clock=clock) as engine,
        FollowerRig(tmp_path, engine, snapshots=False, replay=False, clock=clock) as rig,
    ):
        rig.pump_until(lambda: rig.live.connection == "connected")
        engine.add("victim", prompt=100, output=50)
        engine.step(5)
        engine.abort("victim")
        engine.step(3)
        rig.pump_until_caught_up()
        rig.let_time_pass(10)
        rig.pump_until(lambda: "leak" in rig.open_kinds())
        rig.wire_loss = 1.0
        engine.work(1)
        rig.pump_until(lambda: rig.num_lost > 0)
        rig.wire_loss = 0.0
        engine.work(1)
        rig.pump_until_caught_up(hurry_s=0.2)
        rig.let_time_pass(1)
        rig.pump()
        assert rig.open_kinds() == {"gap", "leak"}
        assert not rig.live.picture.leaked.any()


def test_nonsense_before_anything_was_joined_is_told_with_our_time(tmp_path: Path) -> None:
    with SmallEngine() as engine, FollowerRig(tmp_path, engine) as rig:
        rig.hear_nothing()
        before_ns = rig.clock.wall_ns()
        rig.pump(extra=[Published(b"nonsense")])
        (told,) = rig.changes
        assert told.kind == "malformed"
        assert before_ns <= told.time_ns <= rig.clock.wall_ns()
        assert told.ended_ns == told.time_ns


@pytest.mark.parametrize("payload", [b"", b"KVXM", b"\xff" * 100, b"KVXM\x01\x00\x00\x00\x10\x00\x00\x00" + b"x" * 200])
def test_nonsense_is_counted_and_skipped(tmp_path: Path, payload: bytes) -> None:
    with SmallEngine() as engine, FollowerRig(tmp_path, engine) as rig:
        engine.work(5)
        rig.pump_until_caught_up()
        rig.pump(extra=[Published(payload), Malformed("An event has 2 frames, not 7.")])
        assert rig.live.counters.bad_messages == 2
        engine.work(5)
        rig.pump_until_caught_up()
        engine.assert_folded(rig.block_map)
        rig.pump_until(lambda: any(finding.kind == "malformed" for finding in rig.changes))


def test_duplicates_change_nothing(tmp_path: Path) -> None:
    with SmallEngine() as engine, FollowerRig(tmp_path, engine) as rig:
        engine.work(20)
        rig.pump_until_caught_up()
        totals = rig.block_map.kind_totals.copy()
        again = [Published(payload) for _, payload in engine.publisher.replay.between(0, 100)]
        rig.pump(extra=again + again)
        assert (rig.block_map.kind_totals == totals).all()
        engine.assert_folded(rig.block_map)


def test_a_message_that_names_a_foreign_block_costs_a_gap_not_the_source(tmp_path: Path) -> None:
    with SmallEngine() as engine, FollowerRig(tmp_path, engine) as rig:
        engine.work(5)
        rig.pump_until_caught_up()
        engine.recorder.rows(Kind.BlockFreed, 0, 0, [60_000])
        engine.recorder.flush()
        engine.work(3)
        rig.pump_until_caught_up()
        assert rig.live.counters.gaps == 1
        assert rig.live.counters.bad_messages == 1
        rig.pump_until(lambda: rig.log.flush(5))


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


def test_leaks_are_named_with_their_request_and_none_otherwise(tmp_path: Path) -> None:
    with SmallEngine(leak=True) as engine, FollowerRig(tmp_path, engine) as rig:
        victim = engine.add("victim", prompt=100, output=50)
        engine.step(5)
        engine.abort(victim)
        engine.work(5)
        engine.finish()
        rig.pump_until(lambda: "leak" in rig.open_kinds())
        (leak,) = [finding for finding in rig.live.findings if finding.kind == "leak"]
        assert leak.subjects.requests == ("victim",)
        assert leak.numbers["blocks"] == len(leak.subjects.blocks) == int(np.count_nonzero(rig.live.picture.leaked))
        assert leak.sentence.startswith("Leak: request victim, aborted ")
        assert set(leak.subjects.blocks) == set(rig.block_map.blocks_of(rig.live.leaks[0].holder))


def test_no_leak_is_seen_where_blocks_are_given_back(tmp_path: Path) -> None:
    with SmallEngine() as engine, FollowerRig(tmp_path, engine) as rig:
        for _ in range(30):
            engine.work(5)
            rig.pump()
        engine.finish()
        rig.pump_until_caught_up()
        rig.let_time_pass(10)
        rig.pump()
        assert not [finding for finding in rig.changes if finding.kind in ("leak", "audit", "ref_underflow")]


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
