"""Following a real publisher that loses messages: what is fetched again, what is a gap, and what the gap hides."""

from __future__ import annotations

from pathlib import Path

import pytest
from kvxray_engine.stream.schema import BlockState
from kvxray_engine.stream.subscriber import Published
from kvxray_storage import history

from tests.backend.follower_rig import FollowerRig
from tests.backend.small_engine import SmallEngine


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


def lose_some(rig: FollowerRig, engine: SmallEngine, *, after: int, steps: int) -> None:
    """The messages of some steps never arrive; those before and after do."""
    rig.pump_until(lambda: rig.live.connection == "connected")
    engine.work(after)
    rig.pump_until_caught_up()
    rig.wire_loss = 1.0
    engine.work(steps)
    rig.pump_until(lambda: rig.num_lost == steps)
    rig.wire_loss = 0.0
    engine.work(3)
    rig.pump_until_caught_up()


def test_a_snapshot_makes_everything_exact_again_and_the_gap_stays_in_history(tmp_path: Path) -> None:
    with SmallEngine() as engine, FollowerRig(tmp_path, engine, replay=False) as rig:
        lose_some(rig, engine, after=30, steps=3)
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
        lose_some(rig, engine, after=10, steps=2)
        late = [Published(payload) for _, payload in engine.publisher.replay.between(10, 11)]
        rig.pump(extra=late)
        assert rig.log.flush(5)
        key = rig.key
        (gap,) = history.gaps(rig.database, key, 10)
        assert gap.repaired_ns is not None
        assert [row.seq for row in history.events(rig.database, key, 0, 10**6)] == list(range(engine.recorder.next_seq))
