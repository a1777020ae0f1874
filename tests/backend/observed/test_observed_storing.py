"""What a watched engine tells is stored as it was told: once, in order, with what is missing and what came late."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from kvxray_engine.stream.schema import Kind
from kvxray_storage import history
from kvxray_storage.database import Database
from kvxray_storage.residency_travel import residency_at

from tests.backend.foreign.engine_rig import EngineRig, payload_of
from tests.backend.observed.watching import num_cached, spec_of, stored_in, until, watching


def stored_numbers(database: Database, source: str = "e") -> dict[int, list[int]]:
    """By epoch the numbers of the batches that told of a stored block, in the order of the history."""
    found: dict[int, list[int]] = {}
    for row in history.epochs(database, source):
        events = history.events(database, row.key, 0, 10_000)
        found[row.epoch] = [event.seq >> 20 for event in events if event.kind is Kind.ResidencyStored]
    return found


def findings(database: Database, state: str = "all", source: str = "e") -> list[str]:
    return [row.kind for row in history.findings(database, source, state)]


def test_everything_heard_is_stored_in_order(tmp_path: Path) -> None:
    with stored_in(tmp_path) as (database, log):
        with EngineRig() as rig, watching(database, log, spec_of(rig, labels={"pod": "p-1"})) as engine:
            rig.wait_for_subscriber()
            rig.publish(50)
            until(lambda: num_cached(engine) == 50)
        assert log.flush(10)
        assert stored_numbers(database) == {1: list(range(50))}
        (source,) = history.sources(database)
        assert source.labels == {"engine": "e", "make": "vllm", "rank": "0", "pod": "p-1"}


def test_a_gap_that_replay_fills_is_none(tmp_path: Path) -> None:
    with stored_in(tmp_path) as (database, log):
        with EngineRig() as rig, watching(database, log, spec_of(rig, replay=True)) as engine:
            rig.wait_for_subscriber()
            rig.publish(3)
            rig.publish(4, is_heard=False)
            rig.publish(3)
            until(lambda: num_cached(engine) == 10)
        assert log.flush(10)
        assert stored_numbers(database) == {1: list(range(10))}
        (row,) = history.epochs(database, "e")
        assert history.gaps(database, row.key, 10) == []


def test_a_gap_that_nobody_fills_is_told_and_stored(tmp_path: Path) -> None:
    with stored_in(tmp_path) as (database, log):
        with EngineRig() as rig, watching(database, log, spec_of(rig)) as engine:
            rig.wait_for_subscriber()
            rig.publish(3)
            rig.publish(4, is_heard=False)
            rig.publish(3)
            until(lambda: num_cached(engine) == 6)
            until(lambda: [one.kind for one in engine.findings] == ["seq_gap"])
            until(lambda: findings(database, "open") == ["seq_gap"])
        assert log.flush(10)
        (row,) = history.epochs(database, "e")
        (gap,) = history.gaps(database, row.key, 10)
        assert (gap.wire_seq0, gap.wire_seq1, gap.repaired_ns) == (3, 6, None)
        assert findings(database, "open") == []


def test_what_comes_after_its_turn_is_stored_in_its_place(tmp_path: Path) -> None:
    with stored_in(tmp_path) as (database, log):
        with EngineRig() as rig, watching(database, log, spec_of(rig)) as engine:
            rig.wait_for_subscriber()
            for seq in (0, 1, 4):
                rig.send(rig.topic, seq.to_bytes(8, "big"), payload_of(seq))
            until(lambda: num_cached(engine) == 3)
            for seq in (2, 3):
                rig.send(rig.topic, seq.to_bytes(8, "big"), payload_of(seq))
            until(lambda: num_cached(engine) == 5)
            assert engine.ranks["e"].epoch == 1
        assert log.flush(10)
        assert stored_numbers(database) == {1: list(range(5))}
        (row,) = history.epochs(database, "e")
        (gap,) = history.gaps(database, row.key, 10)
        assert (gap.wire_seq0, gap.wire_seq1, gap.repaired_ns is None) == (2, 3, False)


def test_a_new_life_of_the_engine_is_a_new_epoch(tmp_path: Path) -> None:
    with stored_in(tmp_path) as (database, log):
        with EngineRig() as rig, watching(database, log, spec_of(rig)) as engine:
            rig.wait_for_subscriber()
            rig.publish(3)
            rig.next_seq = 0
            rig.publish(payloads=[payload_of(seq, life=1) for seq in range(2)])
            until(lambda: num_cached(engine) == 2 and engine.ranks["e"].epoch == 2)
            until(lambda: findings(database) == ["engine_restart"])
        assert log.flush(10)
        assert stored_numbers(database) == {1: [0, 1, 2], 2: [0, 1]}


def test_after_a_restart_of_ours_nothing_is_stored_twice(tmp_path: Path) -> None:
    with EngineRig() as rig:
        with stored_in(tmp_path) as (database, log), watching(database, log, spec_of(rig, replay=True)) as engine:
            rig.wait_for_subscriber()
            rig.publish(5)
            until(lambda: num_cached(engine) == 5)
        rig.publish(2)
        with stored_in(tmp_path) as (database, log):
            with watching(database, log, spec_of(rig, replay=True)) as engine:
                rig.wait_for_subscriber()
                rig.publish(3)
                until(lambda: num_cached(engine) == 10)
                assert engine.ranks["e"].followed.confidence == "exact"
                assert engine.ranks["e"].epoch == 2
            assert log.flush(10)
            assert stored_numbers(database) == {1: [0, 1, 2, 3, 4], 2: [5, 6, 7, 8, 9]}


def test_ranks_that_share_a_count_have_histories_without_holes(tmp_path: Path) -> None:
    with stored_in(tmp_path) as (database, log):
        with EngineRig() as rig, watching(database, log, spec_of(rig)) as engine:
            rig.wait_for_subscriber()
            rig.publish(payloads=[payload_of(seq, rank=seq % 2) for seq in range(10)])
            until(lambda: num_cached(engine) == 5 and num_cached(engine, "e/1") == 5)
        assert log.flush(10)
        for source in ("e", "e/1"):
            assert stored_numbers(database, source) == {1: [0, 1, 2, 3, 4]}
            (row,) = history.epochs(database, source)
            assert history.gaps(database, row.key, 10) == []
            assert row.last_seq is not None
            assert residency_at(database, row.key, row.last_seq).known


def test_what_is_stored_folds_to_what_was_live(tmp_path: Path) -> None:
    with EngineRig() as rig:
        with stored_in(tmp_path) as (database, log), watching(database, log, spec_of(rig, replay=True)) as engine:
            rig.wait_for_subscriber()
            rig.publish(5)
            until(lambda: num_cached(engine) == 5)
        with stored_in(tmp_path) as (database, log):
            with watching(database, log, spec_of(rig, replay=True)) as engine:
                rig.wait_for_subscriber()
                rig.publish(3)
                rig.publish(payloads=[removing(rig.next_seq, 2)])
                until(lambda: num_cached(engine) == 7)
                live = engine.ranks["e"].followed.fold
            assert log.flush(10)
            row = history.epochs(database, "e")[-1]
            assert row.last_seq is not None
            then = residency_at(database, row.key, row.last_seq)
            assert {then.hash_bytes(int(one)) for one in then.residents(then.places()[0])} == {
                live.hash_bytes(int(one)) for one in live.residents(live.places()[0])
            }
            assert then.known


def removing(seq: int, number: int) -> bytes:
    """The hash that batch `number` told is gone."""
    gone = {"type": "BlockRemoved", "block_hashes": [number + 1], "medium": "GPU"}
    return msgspec.msgpack.encode([1.0e9 + seq, [gone], 0])


@pytest.mark.parametrize("seq", [(1 << 42) - 1, 1 << 42, (1 << 64) - 2])
def test_a_number_far_ahead_costs_a_gap_and_never_the_event_log(tmp_path: Path, seq: int) -> None:
    with stored_in(tmp_path) as (database, log):
        with EngineRig() as rig, watching(database, log, spec_of(rig)) as engine:
            rig.wait_for_subscriber()
            rig.publish(2)
            until(lambda: num_cached(engine) == 2)
            rig.send(rig.topic, seq.to_bytes(8, "big"), payload_of(2))
            rig.publish(payloads=[payload_of(number) for number in (3, 4)])
            until(lambda: num_cached(engine) >= 3)
        assert log.flush(60)
        assert log.failed is None
        gaps = [gap for row in history.epochs(database, "e") for gap in history.gaps(database, row.key, 10)]
        assert bool(gaps) == (seq < 1 << 42)
