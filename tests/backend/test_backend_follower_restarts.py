"""Following a real publisher over restarts: of the engine, of the backend, and silence between."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from kvxray_backend.analysis.stream_health import STALE_AFTER_S
from kvxray_backend.moments import iso_time
from kvxray_backend.views import source_view, state_view
from kvxray_backend.windows import RATE_WINDOW_NS
from kvxray_engine.stream.codec import decode, encode
from kvxray_engine.stream.schema import BlockState
from kvxray_engine.stream.subscriber import Published
from kvxray_storage import history

from tests.backend.follower_rig import FollowerRig
from tests.backend.small_engine import SmallEngine


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
