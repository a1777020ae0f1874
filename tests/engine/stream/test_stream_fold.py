"""The fold: equal to the slow one at every step, alone or joined, through bytes and through a snapshot."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kvxray_engine.clock import EPOCH_2026_NS, VirtualClock
from kvxray_engine.stream import snapshot
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.codec import BadMessage, Message, decode, encode
from kvxray_engine.stream.joining import can_join, join
from kvxray_engine.stream.recorded import to_message
from kvxray_engine.stream.recorder import Recorder
from kvxray_engine.stream.schema import UNKNOWN_U4, BlockState, Cause, Descriptor, Kind, Name, Pool, RequestStatus

from tests.engine.stream.plain_fold import PlainFold
from tests.engine.stream.scripted_pool import BLOCK_SIZE, ScriptedPool, descriptor


def messages_of(recorder: Recorder) -> list[Message]:
    recorder.flush()
    recorded, _ = recorder.handover.take()
    messages = [to_message(one, "test", "life-1", 32) for one in recorded]
    return [decode(encode(one.header, one.columns)) for one in messages]


def assert_same(fold: BlockMap, plain: PlainFold) -> None:
    fold.check_integrity()
    for block_id, block in enumerate(plain.blocks):
        assert fold.ref[block_id] == block.ref
        assert fold.slots[block_id] == block.slots
        assert sorted(fold.holders_of(block_id)) == sorted(block.holders)
        if block_id:
            assert BlockState(int(fold.state[block_id])) == block.state, block_id
        expected = block.block_hash
        ordinal = int(fold.hash_ordinal[block_id])
        assert (fold.hash_bytes(ordinal) if expected else None) == expected


@given(seed=st.integers(0, 10_000), steps=st.integers(1, 60), num_blocks=st.sampled_from([8, 16, 64]))
@settings(max_examples=60, deadline=None)
def test_fold_equals_the_slow_one_after_every_step(seed: int, steps: int, num_blocks: int) -> None:
    pool = ScriptedPool(num_blocks, seed)
    fold, plain = BlockMap(descriptor(num_blocks)), PlainFold(num_blocks, BLOCK_SIZE)
    for _ in range(steps):
        pool.run_step()
        for message in messages_of(pool.recorder):
            touched = fold.apply(message)
            assert len(np.unique(touched)) == len(touched)
            plain.apply(message)
        assert_same(fold, plain)
        assert not fold.take_faults()
    assert fold.next_seq == pool.recorder.next_seq
    for req, count in plain.output.items():
        view = fold.requests.get(req)
        assert view is not None
        assert view.output_tokens == count


@given(seed=st.integers(0, 10_000), cuts=st.lists(st.integers(1, 12), max_size=12))
@settings(max_examples=40, deadline=None)
def test_joined_messages_fold_to_the_same_state(seed: int, cuts: list[int]) -> None:
    pool = ScriptedPool(24, seed)
    for _ in range(40):
        pool.run_step()
    messages = messages_of(pool.recorder)
    one_by_one, joined = BlockMap(descriptor(24)), BlockMap(descriptor(24))
    for message in messages:
        one_by_one.apply(message)
    at = 0
    for size in [*cuts, len(messages)]:
        part = messages[at : at + size]
        assert all(can_join(part[0], a, b) for a, b in zip(part, part[1:], strict=False))
        if part:
            joined.apply(join(part))
        at += size
    joined.check_integrity()
    assert snapshot.dump(joined) == snapshot.dump(one_by_one)


@given(seed=st.integers(0, 10_000), steps=st.integers(0, 40))
@settings(max_examples=40, deadline=None)
def test_a_snapshot_is_the_state(seed: int, steps: int) -> None:
    pool = ScriptedPool(24, seed)
    fold = BlockMap(descriptor(24))
    for _ in range(steps):
        pool.run_step()
    for message in messages_of(pool.recorder):
        fold.apply(message)
    data = snapshot.dump(fold)
    loaded = snapshot.load(data)
    loaded.check_integrity()
    assert snapshot.dump(loaded) == data
    for _ in range(10):
        pool.run_step()
    for message in messages_of(pool.recorder):
        fold.apply(message)
        loaded.apply(message)
    assert snapshot.dump(loaded) == snapshot.dump(fold)


@given(seed=st.integers(0, 1000), at=st.integers(0, 10_000), value=st.integers(0, 255))
@settings(max_examples=150, deadline=None)
def test_a_damaged_snapshot_is_refused_or_lawful(seed: int, at: int, value: int) -> None:
    pool = ScriptedPool(16, seed % 7)
    fold = BlockMap(descriptor(16))
    for _ in range(10):
        pool.run_step()
    for message in messages_of(pool.recorder):
        fold.apply(message)
    data = bytearray(snapshot.dump(fold))
    changed = data[at % len(data)] != value
    data[at % len(data)] = value
    assert_refused_or_lawful(bytes(data))
    if changed:
        with pytest.raises(BadMessage):
            snapshot.load(bytes(data))
    # Somebody may send a damaged one with a sum that is right.
    assert_refused_or_lawful(snapshot.sealed(bytes(data[:16]), bytes(data[20:])))


def test_every_byte_of_a_snapshot_s_columns_may_be_damaged() -> None:
    fold = BlockMap(descriptor(4))
    fold.written[:] = 13
    assert_refused_or_lawful(snapshot.dump(fold))
    fold = BlockMap(descriptor(4))
    fold.ref[:], fold.hash_ordinal[:] = 0xFFFFFFFF, 0xFFFFFFF0
    assert_refused_or_lawful(snapshot.dump(fold))


def test_a_snapshot_of_version_1_stays_readable() -> None:
    data = (Path(__file__).parents[2] / "data" / "snapshot_version_1.kvxs").read_bytes()
    loaded = snapshot.load(data)
    loaded.check_integrity()
    assert data[4] == 1
    assert loaded.ref.tolist() == [0, 1, *[0] * 10, 1, 1, 1, 1]
    assert loaded.t_alloc.tolist()[:3] == [0, 1767225600216542000, 1767225600015969000]
    assert [column.tolist() for column in loaded.holds()] == [[1, 12, 13, 14, 15], [5, 4, 4, 4, 5]]
    assert loaded.requests.names == {at: Name(f"request-{at}") for at in range(6)}
    assert loaded.counts()[BlockState.cached] == 6
    again = snapshot.dump(loaded)
    assert again[4] == 2
    assert snapshot.dump(snapshot.load(again)) == again
    assert snapshot.load(again).t_last.tolist() == loaded.t_last.tolist()
    assert snapshot.load_hashes(data).get(0) == snapshot.load_hashes(again).get(0) == loaded.hash_bytes(0)


@pytest.mark.parametrize("times", [[], [0], [-1, *range(100)], [0, 2**63]])
def test_times_that_point_nowhere_are_refused(times: list[int]) -> None:
    pool = ScriptedPool(8)
    fold = BlockMap(descriptor(8))
    pool.run_step()
    for message in messages_of(pool.recorder):
        fold.apply(message)
    head_of = snapshot._head_of
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshot, "_head_of", lambda *args: head_of(*args[:-1], np.array(times, object)))
        data = snapshot.dump(fold)
    with pytest.raises(BadMessage, match="A time in the snapshot is out of range."):
        snapshot.load(data)


def assert_refused_or_lawful(data: bytes) -> None:
    try:
        loaded = snapshot.load(data)
    except BadMessage as refusal:
        assert str(refusal).endswith(".")
    else:
        assert sum(loaded.counts().values()) == loaded.descriptor.usable_blocks


def small_world() -> tuple[Recorder, BlockMap]:
    return Recorder(), BlockMap(descriptor(8))


def test_a_block_with_a_live_and_a_dead_holder_is_shared() -> None:
    recorder, fold = small_world()
    first, second = recorder.new_holder(Name("a")), recorder.new_holder(Name("b"))
    recorder.rows(Kind.BlockAllocated, Cause.none, first, [3])
    recorder.values(Kind.BlockReferenced, Cause.hit, second, [3], [2])
    recorder.op(Kind.RequestAborted, Cause.abort, first, 4, 1)
    for message in messages_of(recorder):
        fold.apply(message)
    assert fold.counts()[BlockState.shared] == 1
    assert fold.holders_of(3) == [first, second]
    view = fold.requests.find("a")
    assert view is not None
    assert view.status is RequestStatus.aborted


def test_a_free_of_a_free_block_is_a_double_free_and_clamps() -> None:
    recorder, fold = small_world()
    req = recorder.new_holder(Name("a"))
    recorder.rows(Kind.BlockAllocated, Cause.none, req, [3, 4])
    recorder.rows(Kind.BlockFreed, Cause.finish, req, [3, 4])
    recorder.rows(Kind.BlockFreed, Cause.finish, req, [4])
    for message in messages_of(recorder):
        fold.apply(message)
    assert [(fault.kind, fault.block, fault.holder) for fault in fold.take_faults()] == [("double_free", 4, req)]
    assert fold.take_faults() == []
    assert fold.ref[4] == 0
    fold.check_integrity()


def test_a_reference_below_zero_is_an_underflow_and_clamps() -> None:
    recorder, fold = small_world()
    req = recorder.new_holder(Name("a"))
    recorder.rows(Kind.BlockAllocated, Cause.none, req, [3])
    recorder.values(Kind.BlockDereferenced, Cause.finish, req, [3], [-1])
    for message in messages_of(recorder):
        fold.apply(message)
    assert [fault.kind for fault in fold.take_faults()] == ["ref_underflow"]
    assert fold.ref[3] == 0


def test_a_release_without_its_hold_is_an_underflow() -> None:
    recorder, fold = small_world()
    owner, stranger = recorder.new_holder(Name("a")), recorder.new_holder(Name("b"))
    recorder.rows(Kind.BlockAllocated, Cause.none, owner, [3])
    recorder.rows(Kind.BlockFreed, Cause.finish, stranger, [3])
    for message in messages_of(recorder):
        fold.apply(message)
    assert [(fault.kind, fault.holder) for fault in fold.take_faults()] == [("ref_underflow", stranger)]


def test_after_a_gap_blocks_are_unknown_until_ref_and_hash_are_told() -> None:
    recorder, fold = small_world()
    req = recorder.new_holder(Name("a"))
    recorder.rows(Kind.BlockAllocated, Cause.none, req, [1, 2, 3, 4])
    for message in messages_of(recorder):
        fold.apply(message)
    fold.forget()
    fold.check_integrity()
    assert fold.counts()[BlockState.unknown] == 7
    recorder.rows(Kind.BlockAllocated, Cause.none, req, [5])
    recorder.rows(Kind.BlockFreed, Cause.finish, req, [1])
    recorder.values(Kind.BlockReferenced, Cause.hit, req, [2], [2])
    recorder.cached(req, [3], [b"x" * 32], -1)
    for message in messages_of(recorder):
        fold.apply(message)
    fold.check_integrity()
    states = {block: BlockState(int(fold.state[block])) for block in range(1, 6)}
    assert states == {
        1: BlockState.unknown,
        2: BlockState.unknown,
        3: BlockState.unknown,
        4: BlockState.unknown,
        5: BlockState.active,
    }
    assert fold.ref[4] == UNKNOWN_U4
    assert fold.take_faults() == []


def test_clearing_the_cache_drops_every_hash_and_no_hold() -> None:
    recorder, fold = small_world()
    req = recorder.new_holder(Name("a"))
    recorder.rows(Kind.BlockAllocated, Cause.none, req, [1, 2])
    recorder.cached(req, [1, 2], [b"x" * 32, b"y" * 32], -1)
    recorder.rows(Kind.BlockFreed, Cause.finish, req, [2])
    recorder.op(Kind.CacheCleared, Cause.explicit, 0xFFFFFFFF, 255)
    for message in messages_of(recorder):
        fold.apply(message)
    fold.check_integrity()
    assert fold.counts()[BlockState.cached] == 0
    assert fold.counts()[BlockState.active] == 1
    assert fold.counts()[BlockState.free] == 1


def test_a_copy_takes_the_slots_of_its_source() -> None:
    recorder, fold = small_world()
    req = recorder.new_holder(Name("a"))
    recorder.rows(Kind.BlockAllocated, Cause.none, req, [1, 2])
    recorder.values(Kind.BlockFilled, Cause.none, 0xFFFFFFFF, [1], [3])
    recorder.values(Kind.BlockCopied, Cause.fork, req, [2], [1])
    for message in messages_of(recorder):
        fold.apply(message)
    assert fold.slots[2] == 3


def test_a_move_takes_hash_and_slots_to_the_other_tier() -> None:
    recorder = Recorder()
    tiers = Descriptor(8, BLOCK_SIZE, pools=(Pool("GPU", "GPU", 0, 4), Pool("CPU", "host", 4, 4)))
    fold = BlockMap(tiers)
    req = recorder.new_holder(Name("a"))
    recorder.rows(Kind.BlockAllocated, Cause.none, req, [1])
    recorder.cached(req, [1], [b"x" * 32], -1)
    recorder.values(Kind.BlockMoved, Cause.capacity, req, [5], [1])
    for message in messages_of(recorder):
        fold.apply(message)
    assert fold.hash_bytes(int(fold.hash_ordinal[5])) == b"x" * 32
    assert fold.slots[5] == BLOCK_SIZE
    fold.check_integrity()


def test_a_row_about_a_block_that_is_not_there_is_refused_and_changes_nothing() -> None:
    recorder, fold = small_world()
    req = recorder.new_holder(Name("a"))
    recorder.rows(Kind.BlockAllocated, Cause.none, req, [1, 99])
    (message,) = messages_of(recorder)
    before = snapshot.dump(fold)
    with pytest.raises(BadMessage, match="names block 99; the source has 8"):
        fold.apply(message)
    assert snapshot.dump(fold) == before


def test_ended_requests_that_hold_nothing_are_forgotten_in_the_end() -> None:
    recorder, fold = small_world()
    keeper = recorder.new_holder(Name("keeper"))
    recorder.rows(Kind.BlockAllocated, Cause.none, keeper, [1])
    recorder.op(Kind.RequestAborted, Cause.abort, keeper)
    for number in range(12_000):
        req = recorder.new_holder(Name(f"r{number}"))
        recorder.op(Kind.RequestArrived, Cause.none, req, 0, 4)
        recorder.op(Kind.RequestFinished, Cause.finish, req, 4, 1)
        if number % 100 == 99:
            for message in messages_of(recorder):
                fold.apply(message)
    assert len(fold.requests) < 9_000
    assert len(fold.requests.names) == len(fold.requests)
    assert fold.requests.find("keeper") is not None
    assert fold.requests.find("r11999") is not None


def test_the_first_token_comes_when_its_step_completes() -> None:
    clock = VirtualClock()
    recorder, fold = Recorder(clock), BlockMap(descriptor(8))
    req = recorder.new_holder(Name("a"))
    recorder.op(Kind.RequestArrived, Cause.none, req, 0, 4)
    clock.advance_ns(5_000_000)
    recorder.start_step(1)
    recorder.rows(Kind.BlockAllocated, Cause.none, req, [1])
    clock.advance_ns(80_000_000)
    recorder.ops(Kind.TokensGenerated, [req], [1], [1])
    recorder.complete_step(4)
    for message in messages_of(recorder):
        fold.apply(message)
    view = fold.requests.get(req)
    assert view is not None
    assert view.ttft_s == pytest.approx(0.085)
    assert fold.t_ns - int(fold.t_alloc[1]) == 80_000_000


def test_what_was_told_between_steps_keeps_its_own_time() -> None:
    clock = VirtualClock()
    recorder, fold = Recorder(clock), BlockMap(descriptor(8))
    recorder.start_step(1)
    clock.advance_ns(7_000_000)
    recorder.complete_step(0)
    first, second = recorder.new_holder(Name("a")), recorder.new_holder(Name("b"))
    recorder.op(Kind.RequestArrived, Cause.none, first, 0, 4)
    clock.advance_ns(3_000_000)
    recorder.start_step(2)
    recorder.op(Kind.RequestArrived, Cause.none, second, 0, 4)
    recorder.complete_step(0)
    for message in messages_of(recorder):
        fold.apply(message)
    views = [fold.requests.get(req) for req in (first, second)]
    assert [view.arrived_ns - EPOCH_2026_NS for view in views if view] == [7_000_000, 10_000_000]
