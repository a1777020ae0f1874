"""Leaks of an engine that is followed: found, named, and ended with their engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from kvxray_backend.analysis.leak_search import find_leaks

from tests.backend.follower_rig import FollowerRig
from tests.backend.shifted_clock import ShiftedClock
from tests.backend.small_engine import SmallEngine


def until_it_leaks(rig: FollowerRig, engine: SmallEngine) -> None:
    """A request is aborted, keeps its blocks, and is found out."""
    engine.add("victim", prompt=100, output=50)
    engine.step(5)
    engine.abort("victim")
    engine.step()
    rig.pump_until_caught_up()
    rig.let_time_pass(10)
    rig.pump_until(lambda: "leak" in rig.open_kinds())


def test_a_leak_ends_with_its_engine_and_is_not_told_as_released(tmp_path: Path) -> None:
    clock = ShiftedClock()
    with SmallEngine(leak=True, clock=clock) as engine, FollowerRig(tmp_path, engine, clock=clock) as rig:
        until_it_leaks(rig, engine)
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
        until_it_leaks(rig, engine)
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
