"""Batches of foreign engines as messages of our own: each round trips through the codec, and folds to what was told."""

from __future__ import annotations

import numpy as np
import pytest
from kvxray_backend.sources.foreign import interning
from kvxray_backend.sources.foreign.caps import BadBatch
from kvxray_backend.sources.foreign.interning import EpochIsFull, Interned, Interning
from kvxray_backend.sources.foreign.told import (
    Batch,
    Cleared,
    Created,
    Hash,
    Moved,
    Oddities,
    Place,
    Removed,
    Spec,
    Stored,
    Told,
)
from kvxray_backend.sources.privacy import NameFilter
from kvxray_engine.stream.codec import Message, decode, encode
from kvxray_engine.stream.joining import EVENTS_OF_BATCH
from kvxray_engine.stream.residency_descriptor import decode_residency_descriptor
from kvxray_engine.stream.residency_map import ResidencyMap
from kvxray_engine.stream.schema import NO_ORDINAL, Group, Kind, Pool

NOW_NS = 1_770_000_000_000_000_000
GPU, CPU = Place("GPU"), Place("CPU")


def h(number: int, width: int = 8) -> Hash:
    return number.to_bytes(width, "big") if width == 8 else bytes([number]) * width


def stored(*numbers: int, parent: int | None = None, place: Place = GPU, size: int = 4, **more) -> Stored:
    hashes = tuple(map(h, numbers))
    return Stored(hashes, None if parent is None else h(parent), size, size * len(hashes), place, **more)


class World:
    """Interning and the fold behind it, which gets what the codec makes of each message."""

    def __init__(self, **more) -> None:
        self.fold: ResidencyMap | None = None
        size = more.pop("generation_size", 1 << 19)
        self.interning = Interning("engine", NameFilter(b"key"), self.are_gone, generation_size=size, **more)
        self.fold = ResidencyMap(self.interning.descriptor, store_semantics="copies", generation_size=size)
        self.wire_seq = 0

    def are_gone(self, ordinals):
        return self.fold.are_gone(ordinals)

    def tell(self, *events: Told, ts: float | None = 1_770_000_001.25) -> Message:
        return self.intern(*events, ts=ts).message

    def intern(self, *events: Told, ts: float | None = 1_770_000_001.25) -> Interned:
        interned = self.interning.intern(Batch(ts, None, events), self.wire_seq, NOW_NS)
        self.wire_seq += 1
        self.fold.apply(decode(encode(interned.message.header, interned.message.columns)))
        self.fold.check_integrity()
        return interned

    def copies(self, number: int, place: int = 0, width: int = 8) -> int:
        ordinals = self.fold.ordinals_of(h(number, width))
        return int(self.fold.copies(np.array(ordinals[-1:], np.uint32), place).sum())

    def faults(self) -> list[str]:
        return [fault.kind for fault in self.fold.take_faults()]


def test_a_chain_becomes_rows_that_name_their_parents() -> None:
    world = World()
    message = world.tell(stored(10, 11, 12), stored(13, parent=12))
    columns = message.columns
    assert columns.kind.tolist() == [Kind.StepStarted, Kind.ResidencyStored, Kind.ResidencyStored]
    assert columns.blk.tolist() == [0, 1, 2, 3]
    assert columns.val.tolist() == [-1, 0, 1, 2]
    assert columns.a0.tolist()[1:] == [12, 4]
    assert bytes(columns.hashes) == h(10) + h(11) + h(12) + h(13)
    assert world.faults() == []


def test_seq_follows_from_the_number_of_the_batch() -> None:
    world = World()
    world.wire_seq = 7
    header = world.tell(stored(1, 2)).header
    assert (header.seq0, header.n, header.wire_seq, header.step) == (7 * EVENTS_OF_BATCH, 3, 7, 7)
    assert world.fold.next_seq == 7 * EVENTS_OF_BATCH + 3


def test_a_hash_has_one_ordinal_however_often_it_is_mentioned() -> None:
    world = World()
    world.tell(stored(1, 2))
    message = world.tell(stored(2, parent=1), Removed((h(1),), GPU))
    assert message.columns.blk.tolist() == [1, 0]
    assert (message.header.hash0, len(message.columns.hashes)) == (2, 0)
    assert [world.copies(1), world.copies(2)] == [0, 2]


def test_time_is_the_engines_or_else_when_it_was_received() -> None:
    world = World()
    assert world.tell(ts=12.5).header.t0_wall_ns == 12_500_000_000
    assert world.tell(ts=None).header.t0_wall_ns == NOW_NS


@pytest.mark.parametrize("ts", [-1.0, float("nan"), float("inf"), 1e12])
def test_a_time_that_no_clock_shows_is_refused(ts: float) -> None:
    with pytest.raises(BadBatch, match="which no clock shows"):
        World().tell(ts=ts)


def test_what_is_new_of_the_engine_is_told_with_the_batch_that_needs_it_and_once() -> None:
    world = World()
    spec = Spec("sliding_window", 32)
    message = world.tell(stored(1, place=Place("CPU_PINNED", 1), spec=spec))
    descriptor = world.fold.descriptor
    assert decode_residency_descriptor(message.header.descriptor) == descriptor
    assert descriptor.groups == (Group(""), Group("sliding_window", 32, 4))
    assert descriptor.pools == (Pool("GPU", "GPU", 0, 0), Pool("CPU", "CPU_PINNED", 0, 0))
    assert descriptor.block_sizes == (0, 4)
    assert not world.tell(stored(2, place=Place("cpu_pinned", 1), spec=spec)).header.descriptor
    assert world.tell(stored(3, size=8)).header.descriptor
    assert world.copies(2, place=0x101) == 1


def test_a_late_batch_can_be_read_before_those_that_described_what_it_names() -> None:
    world = World()
    world.wire_seq = 1
    first = world.tell(stored(1, place=CPU))
    world.wire_seq = 0
    late = world.tell(stored(2, place=CPU))
    fold = ResidencyMap(World().interning.descriptor, store_semantics="copies")
    for message in (late, first):
        fold.apply(message)
    assert [fold.residents(0x100).tolist(), fold.descriptor] == [[0, 1], world.fold.descriptor]


def test_a_batch_that_could_not_be_read_whole_says_so() -> None:
    world = World()
    batch = Batch(None, None, (stored(1),), Oddities(bad_events=1))
    world.fold.apply(world.interning.intern(batch, 0, NOW_NS).message)
    assert (world.fold.known, world.copies(1)) == (False, 1)


def test_a_medium_that_is_not_told_is_the_gpu_and_an_unknown_one_is_itself() -> None:
    world = World()
    world.tell(stored(1, place=Place("")), stored(2, place=Place("gpu")), stored(3, place=Place("Tape")))
    assert world.copies(1) == world.copies(2) == 1
    assert world.fold.descriptor.pools[1] == Pool("TAPE", "Tape", 0, 0)


def test_sizes_of_caches_go_into_the_descriptor() -> None:
    world = World()
    world.tell(Created((("GPU", 100), ("CPU", 40)), window=0))
    world.tell(Created((("GPU", 20),), window=512))
    assert [pool.num_blocks for pool in world.fold.descriptor.pools] == [120, 40]
    assert world.fold.descriptor.num_blocks == 160
    assert not world.tell(Created((("GPU", 20),), window=512)).header.descriptor


def test_a_clear_that_names_no_medium_empties_the_gpu_only() -> None:
    world = World()
    world.tell(stored(1), stored(2, place=Place("device")), stored(1, place=CPU))
    world.tell(Cleared())
    assert [world.copies(1), world.copies(2, place=0x100), world.copies(1, place=0x200)] == [0, 0, 1]
    world.tell(Cleared("CPU"))
    assert world.copies(1, place=0x200) == 0


def test_a_moved_block_leaves_one_medium_and_is_on_the_other_in_the_same_chain() -> None:
    world = World()
    world.tell(stored(1, 2))
    world.tell(Moved((h(1), h(2)), GPU, CPU))
    assert [world.copies(1), world.copies(1, place=0x100)] == [0, 1]
    assert world.fold.reachable(0x100).tolist() == [0, 1]
    assert world.faults() == []


def test_a_placeholder_tells_neither_parent_nor_tokens() -> None:
    world = World()
    world.tell(stored(1, 2))
    placed = Stored((h(1), h(2)), h(99), 0, None, CPU, why="placeholder")
    message = world.tell(placed)
    assert message.columns.val.tolist() == [-1, -1]
    assert int(message.columns.a0[1]) == NO_ORDINAL
    assert len(message.columns.hashes) == 0
    assert world.faults() == []


def test_a_removal_that_names_no_group_is_of_the_only_one_or_of_any() -> None:
    world = World()
    world.tell(stored(1), Removed((h(1),), GPU, is_any_group=True))
    assert world.copies(1) == 0
    world.tell(stored(2, place=Place("GPU", 1)), Removed((h(2),), GPU, is_any_group=True))
    assert world.copies(2, place=1) == 0
    assert world.faults() == []


def test_sessions_and_salts_are_digested_and_each_combination_is_named_once() -> None:
    world = World()
    message = world.tell(stored(1, session="sess-secret", salt="salt-secret", lora="adapter"))
    (name,) = message.header.names
    assert (name.kind, name.lora) == ("namespace", "adapter")
    assert b"secret" not in encode(message.header, message.columns)
    assert name.session == NameFilter(b"key").digest("sess-secret")
    message = world.tell(stored(2, session="sess-secret", salt="salt-secret", lora="adapter"), stored(3))
    assert message.header.names == ()
    assert message.columns.req.tolist() == [NO_ORDINAL, 0, NO_ORDINAL]


def test_names_are_bounded_and_the_oldest_get_new_ordinals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interning, "NAMES_IN_USE", 2)
    world = World()
    reqs = [int(world.tell(stored(one, session=s)).columns.req[1]) for one, s in enumerate("abcabc")]
    assert reqs == [0, 1, 2, 3, 4, 5]


def test_hashes_of_several_widths_live_in_one_epoch() -> None:
    world = World()
    world.tell(stored(1))
    world.tell(Stored((h(7, 32),), h(1), 4, 4, GPU), Stored((h(9, 16),), h(7, 32), 4, 4, GPU))
    assert [world.copies(1), world.copies(7, width=32), world.copies(9, width=16)] == [1, 1, 1]
    assert [world.fold.hash_bytes(one) for one in (0, 1, 2)] == [h(1), h(7, 32), h(9, 16)]
    assert len(world.fold.reachable(0)) == 3


def test_digests_of_tokens_come_with_the_ordinals_of_their_hashes() -> None:
    world = World()
    interned = world.intern(stored(5, 6, token_digests=(b"five", b"six")), stored(7))
    assert interned.token_digests == ((0, b"five"), (1, b"six"))


def test_a_batch_without_events_still_takes_its_place() -> None:
    world = World()
    message = world.tell()
    assert (message.header.n, world.fold.next_wire_seq) == (1, 1)


def too_many(count: int) -> tuple[Told, ...]:
    return (Stored((h(1),) * count, None, 4, None, GPU),)


REFUSED: dict[str, tuple[Told, ...]] = {
    "more than 1,048,576 events": too_many(EVENTS_OF_BATCH),
    "8, 16 or 32 bytes": (Stored((b"12345",), None, 4, None, GPU),),
    "at most 128 are followed": (stored(1, place=Place("GPU", 128)),),
    "another medium": tuple(stored(1, place=Place(f"M{one}")) for one in range(64)),
    "in more than 4,096 turns": (Cleared(),) * 4097,
    "more than 4,096 turns": (Removed((h(1),), GPU, is_any_group=True), stored(1)) * 4097,
    "another block size": tuple(stored(1, size=one) for one in range(1025)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_batch_that_cannot_be_told_is_one_sentence_and_changes_nothing(what: str) -> None:
    world = World()
    with pytest.raises(BadBatch, match=what):
        world.tell(stored(1), *REFUSED[what])
    assert world.interning.descriptor == world.fold.descriptor
    assert world.interning.num_hashes == 0
    message = world.tell(stored(2))
    assert message.columns.blk.tolist() == [0]


def test_a_batch_of_as_many_events_as_there_are_numbers_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interning, "EVENTS_OF_BATCH", 16)
    assert World().tell(*too_many(15)).header.n == 16
    with pytest.raises(BadBatch, match="more than 16 events"):
        World().tell(*too_many(16))


def test_an_epoch_ends_before_its_ordinals_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interning, "MAX_ORDINAL", 2 * EVENTS_OF_BATCH + 2)
    world = World()
    world.tell(stored(1, 2))
    with pytest.raises(EpochIsFull):
        world.tell(stored(3))


def test_more_hashes_than_are_remembered_end_the_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interning, "MAX_HASHES", 2)
    world = World()
    world.tell(stored(1, 2))
    with pytest.raises(EpochIsFull):
        world.tell(stored(3))


def test_what_is_gone_is_forgotten_by_both_and_comes_back_under_a_new_ordinal() -> None:
    world = World(generation_size=4)
    world.tell(stored(1, 2, 3), Removed((h(2),), GPU))
    for number in range(10, 22):
        world.tell(stored(number), Removed((h(number),), GPU))
    assert world.interning.num_hashes < 12
    assert world.interning.num_hashes == len(world.fold.hashes)
    assert world.fold.ordinals_of(h(2)) == []
    world.tell(stored(2, parent=1))
    assert world.fold.ordinals_of(h(1)) == [0]
    assert world.fold.ordinals_of(h(2)) == [15]
    assert world.copies(2) == 1


def test_any_course_leaves_both_with_the_same_hashes() -> None:
    rng = np.random.default_rng(5)
    world = World(generation_size=8)
    there: list[int] = []
    for _ in range(300):
        number = int(rng.integers(0, 40))
        if number in there:
            there.remove(number)
            world.tell(Removed((h(number),), GPU))
        elif rng.random() < 0.05:
            there.clear()
            world.tell(Cleared())
        else:
            there.append(number)
            parent = int(rng.integers(0, 60))
            world.tell(stored(number, parent=parent))
        assert world.interning.num_hashes == len(world.fold.hashes)
        assert all(world.copies(one) == (one in there) for one in range(40))
