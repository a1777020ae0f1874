"""Following a real publisher that sends nonsense, or the same again: it is counted and costs nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from kvxray_engine.stream.schema import Kind
from kvxray_engine.stream.subscriber import Malformed, Published

from tests.backend.follower_rig import FollowerRig
from tests.backend.small_engine import SmallEngine


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
