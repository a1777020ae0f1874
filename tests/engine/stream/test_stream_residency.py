"""What a stream of hashes comes to: copies, chains, certainty, and the laws that a stream may break."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kvxray_engine.stream import residency_faults
from kvxray_engine.stream.codec import BadMessage, Message, decode, encode, encode_descriptor
from kvxray_engine.stream.columns import Columns
from kvxray_engine.stream.residency_descriptor import ANY_GROUP, NOT_TOLD, describe, place_of
from kvxray_engine.stream.residency_faults import ResidencyFault
from kvxray_engine.stream.residency_map import ResidencyMap
from kvxray_engine.stream.residency_snapshot import dump
from kvxray_engine.stream.residency_state import Certainty
from kvxray_engine.stream.schema import NO_ORDINAL, RESIDENCY_KINDS, Cause, Group, Kind, Name, Pool

from tests.engine.stream.residency_teller import (
    CPU,
    DESCRIPTOR,
    GPU,
    T0_NS,
    WINDOW,
    Event,
    Teller,
    clear,
    hash_of,
    placeholder,
    remove,
    store,
)


class World:
    """One fold and the engine that tells it."""

    def __init__(self, semantics="unknown", **more) -> None:
        self.fold = ResidencyMap(DESCRIPTOR, store_semantics=semantics, **more)
        self.teller = Teller()

    def tell(self, *events: Event, **more) -> None:
        self.fold.apply(self.teller.tell(*events, **more))
        self.fold.check_integrity()

    def certain(self, place=GPU) -> list[int]:
        return self.having(Certainty.certain, place)

    def having(self, certainty: Certainty, place=GPU) -> list[int]:
        residents = self.fold.residents(place)
        return residents[self.fold.certainty_of(residents, place) == certainty].tolist()

    def copies(self, *ordinals: int, place=GPU) -> list[int]:
        return self.fold.copies(np.array(ordinals, np.uint32), place).tolist()

    def faults(self) -> list[tuple[str, int]]:
        return [(fault.kind, fault.ordinal) for fault in self.fold.take_faults()]

    def entry(self, ordinal: int, column: str, place=GPU) -> int:
        row = int(self.fold.entries.index.find(np.array([ordinal << 16 | place], np.uint64))[0])
        return int(self.fold.entries[column][row])


def test_a_second_copy_is_there_until_both_are_removed() -> None:
    world = World("copies")
    world.tell(store(1, 2, 3), store(3, parent=2))
    world.tell(remove(3))
    assert world.copies(1, 2, 3) == [1, 1, 1]
    assert world.certain() == [1, 2, 3]
    world.tell(remove(3))
    assert world.certain() == [1, 2]
    assert world.faults() == []


def test_where_reports_are_told_from_stores_a_repeated_store_adds_no_copy() -> None:
    world = World("reuse")
    world.tell(store(1, 2, 3), store(1, 2, 3))
    world.tell(remove(3))
    assert world.certain() == [1, 2]
    assert [world.entry(one, "reuses") for one in (1, 2, 3)] == [1, 1, 1]
    assert world.faults() == []


def test_a_repeated_store_that_could_be_either_leaves_a_maybe() -> None:
    world = World()
    world.tell(store(1, 2, 3))
    world.tell(store(3, parent=2))
    world.tell(remove(3))
    world.tell(store(4, parent=3))
    assert world.certain() == [1, 2, 4]
    assert world.having(Certainty.maybe) == [3]
    assert world.faults() == [("duplicate_store", 3)]
    world.tell(remove(3))
    assert world.having(Certainty.maybe) == []


def test_a_whole_chain_told_again_from_its_root_is_a_hit_reported_and_no_fault() -> None:
    world = World()
    world.tell(store(1, 2, 3), store(1, 2, 3), remove(3))
    assert world.certain() == [1, 2]
    assert world.having(Certainty.maybe) == [3]
    assert [world.entry(one, "reuses") for one in (1, 2, 3)] == [1, 1, 1]
    assert world.faults() == []


def test_a_report_that_says_so_adds_no_copy_whatever_the_semantics() -> None:
    world = World("copies")
    world.tell(store(1), store(1, cause=Cause.reuse_report), remove(1))
    assert world.certain() == []


def test_a_parent_never_seen_and_one_that_is_gone_are_two_things() -> None:
    world = World()
    world.tell(store(1), store(2, parent=1), remove(1))
    world.tell(store(3, parent=1), store(5, parent=4))
    assert world.faults() == [("store_on_missing_parent", 1), ("orphan_parent", 4)]
    assert world.certain() == [2, 3, 5]


def test_a_parent_on_another_medium_or_in_another_group_is_no_missing_one() -> None:
    world = World()
    world.tell(store(1), store(1, place=CPU), remove(1), store(2, parent=1))
    world.tell(store(3, parent=2, place=WINDOW))
    assert world.faults() == []


def test_before_everything_is_known_a_missing_parent_is_no_sure_fault() -> None:
    world = World(known=False)
    world.tell(store(2, parent=1), remove(7))
    assert [(fault.kind, fault.is_certain) for fault in world.fold.take_faults()] == [
        ("orphan_parent", False),
        ("remove_unknown", False),
    ]
    assert not world.fold.known
    assert world.fold.unreachable(GPU).tolist() == []
    world.tell(clear(255), store(4, parent=3))
    assert world.fold.known
    assert [(fault.kind, fault.is_certain) for fault in world.fold.take_faults()] == [("orphan_parent", True)]


def test_after_a_gap_what_was_there_stays_and_nothing_is_sure_to_be_missing() -> None:
    world = World()
    world.tell(store(1, 2))
    world.fold.note_gap()
    world.tell(store(4, parent=3))
    assert world.certain() == [1, 2, 4]
    assert [fault.is_certain for fault in world.fold.take_faults()] == [False]


def test_a_removal_of_what_is_not_there_is_a_fault_and_counts_no_less_than_none() -> None:
    world = World()
    world.tell(store(1), remove(9), remove(1, 1))
    assert world.copies(1, 9) == [0, 0]
    assert world.faults() == [("remove_unknown", 9), ("remove_unknown", 1)]
    world.tell(store(1))
    assert world.certain() == [1]


def test_a_clear_empties_its_medium_only() -> None:
    world = World()
    world.tell(store(1, 2), placeholder(1, 2), store(1, place=WINDOW))
    world.tell(store(3), clear(0), store(4))
    assert world.certain(GPU) == [4]
    assert world.certain(WINDOW) == []
    assert world.certain(CPU) == [1, 2]
    world.tell(clear(255))
    assert world.certain(CPU) == []


def test_groups_are_counted_apart() -> None:
    world = World()
    world.tell(store(7, place=WINDOW), store(3, 4, 7), remove(7))
    assert world.certain(WINDOW) == [7]
    assert world.certain(GPU) == [3, 4]


def test_a_removal_that_names_no_group_is_one_in_each_that_has_the_hash() -> None:
    world = World()
    world.tell(store(1, 2), store(2, place=WINDOW), store(3, place=CPU))
    world.tell(remove(1, 2, 3, place=place_of(ANY_GROUP, 0)))
    assert world.certain(GPU) == world.certain(WINDOW) == []
    assert world.certain(CPU) == [3]
    assert world.faults() == [("remove_unknown", 3)]


def test_a_placeholder_belongs_where_its_hash_does_and_is_no_orphan() -> None:
    world = World()
    world.tell(store(1, 2), placeholder(1, 2), placeholder(8))
    assert world.faults() == []
    assert world.certain(CPU) == [1, 2, 8]
    assert world.fold.reachable(CPU).tolist() == [1, 2]
    assert world.fold.unreachable(CPU).tolist() == []
    world.tell(remove(1), remove(1, place=CPU))
    assert world.fold.unreachable(CPU).tolist() == [2]


def test_what_hangs_on_a_gone_block_cannot_be_reached() -> None:
    world = World()
    world.tell(store(1, 2, 3, 4), store(5), remove(2))
    assert world.fold.reachable(GPU).tolist() == [1, 5]
    assert world.fold.unreachable(GPU).tolist() == [3, 4]
    world.tell(store(2, parent=1))
    assert world.fold.reachable(GPU).tolist() == [1, 2, 3, 4, 5]


def test_chains_that_go_in_circles_end() -> None:
    world = World()
    world.tell(store(1, parent=2), store(2, parent=1))
    assert world.fold.unreachable(GPU).tolist() == [1, 2]


def test_a_long_chain_is_followed_to_its_root() -> None:
    world = World()
    world.tell(store(*range(5000)))
    assert len(world.fold.reachable(GPU)) == 5000
    world.tell(remove(0))
    assert len(world.fold.unreachable(GPU)) == 4999


def test_a_group_that_drops_blocks_by_design_has_nothing_unreachable() -> None:
    world = World()
    world.tell(store(1, 2, 3, place=WINDOW), remove(1, place=WINDOW))
    assert world.fold.unreachable(WINDOW).tolist() == []


def test_more_copies_than_blocks_are_told_once_the_blocks_are() -> None:
    world = World("copies")
    world.tell(store(1, 2, 3))
    assert world.fold.over_capacity(0) is None
    pools = (Pool("GPU", "GPU", 0, 2), *DESCRIPTOR.pools[1:])
    world.fold.apply(world.teller.describe(describe(DESCRIPTOR.groups, pools, DESCRIPTOR.block_sizes)))
    assert world.fold.over_capacity(0) == (3, 2)
    assert world.fold.over_capacity(1) is None


def test_another_block_size_is_a_fault_and_one_shorter_block_is_not() -> None:
    world = World()
    world.tell(store(1, 2, tokens=8), store(3, parent=2, size=2, tokens=2), store(4, parent=2, tokens=4))
    assert world.faults() == []
    world.tell(store(5, 6, size=2, tokens=4))
    fault = world.fold.take_faults()[0]
    assert (fault.kind, fault.before, fault.after, fault.seq) == ("block_size_changed", 4, 2, 101)
    assert world.entry(3, "block_size") == 2


@pytest.mark.parametrize(("tokens", "is_wrong"), [(12, False), (9, False), (8, True), (13, True), (None, False)])
def test_tokens_that_do_not_fit_the_hashes_are_a_fault(tokens: int | None, is_wrong: bool) -> None:
    world = World()
    world.tell(store(1, 2, 3, tokens=tokens))
    assert world.faults() == [("token_count_mismatch", NO_ORDINAL)] * is_wrong


def test_one_hash_for_many_blocks_is_a_sparse_group_where_the_group_is_no_full_one() -> None:
    world = World()
    world.tell(store(7, place=WINDOW, tokens=20))
    assert world.faults() == [("sparse_group", NO_ORDINAL)]


def test_a_hash_in_two_namespaces_or_on_two_parents_is_a_collision() -> None:
    world = World("copies")
    names = (Name("", "namespace", lora="a"), Name("", "namespace", lora="b"), Name("", "namespace", session="s"))
    world.tell(store(1, req=0), store(2, parent=1), names=names)
    world.tell(store(1, req=2), store(1, req=0))
    assert world.faults() == []
    world.tell(store(1, req=1))
    world.tell(store(3), store(2, parent=3))
    assert world.faults() == [("hash_namespace_collision", 1), ("hash_namespace_collision", 2)]


def test_times_are_those_of_the_present_stay() -> None:
    world = World("copies")
    world.tell(store(1))
    world.tell(store(1))
    world.tell(remove(1), remove(1))
    assert (world.entry(1, "t_first"), world.entry(1, "t_last")) == (T0_NS, T0_NS + 2_000_000)
    world.tell(store(1))
    assert world.entry(1, "t_first") == T0_NS + 3_000_000
    assert (world.entry(1, "stores"), world.entry(1, "removals")) == (3, 2)


def test_a_hash_is_found_by_its_bytes() -> None:
    world = World()
    world.tell(store(1, 2))
    assert world.fold.ordinals_of(hash_of(2)) == [2]
    assert world.fold.hash_bytes(2) == hash_of(2)
    assert world.fold.ordinals_of(b"unknown!") == []


def test_what_is_gone_and_unmentioned_for_a_generation_is_forgotten() -> None:
    world = World(generation_size=4)
    world.tell(store(0, 1, 2), remove(1))
    world.tell(store(3))
    world.tell(store(4))
    assert 1 in world.fold.hashes.index.keys_by_row()
    world.tell(store(5, 6, 7), remove(5))
    world.tell(store(8))
    assert world.fold.hashes.index.keys_by_row().tolist() == [0, 2, 3, 4, 5, 6, 7, 8]
    assert world.fold.hash_bytes(1) is None
    assert world.certain() == [0, 2, 3, 4, 6, 7, 8]


REFUSED = {
    "a hash never told": lambda message: message.columns.blk.__setitem__(0, 99),
    "a parent never told": lambda message: message.columns.val.__setitem__(0, 99),
    "a group never described": lambda message: message.columns.a1.__setitem__(1, 9),
    "any group to store in": lambda message: message.columns.a1.__setitem__(1, ANY_GROUP),
    "a medium never described": lambda message: message.columns.a1.__setitem__(1, 7 << 8),
    "a block size never described": lambda message: message.columns.a1.__setitem__(1, 9 << 16),
    "a clear of a medium never described": lambda message: message.columns.a0.__setitem__(2, 9),
    "a block": lambda message: message.columns.kind.__setitem__(1, 14),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_no_such_stream_tells_is_refused_and_changes_nothing(what: str) -> None:
    world = World()
    world.tell(store(1, 2))
    message = world.teller.tell(store(3, 4), clear(1))
    for name in ("kind", "blk", "val", "a0", "a1"):
        setattr(message.columns, name, getattr(message.columns, name).copy())
    REFUSED[what](message)
    with pytest.raises(BadMessage, match=r"^The message [^.]+\.$"):
        world.fold.apply(message)
    assert world.certain() == [1, 2]
    assert world.fold.next_wire_seq == 1


@pytest.mark.parametrize(
    "changed",
    [
        describe(DESCRIPTOR.groups, DESCRIPTOR.pools[::-1], DESCRIPTOR.block_sizes),
        describe(DESCRIPTOR.groups[:1], DESCRIPTOR.pools[::-1], DESCRIPTOR.block_sizes),
        describe(DESCRIPTOR.groups, DESCRIPTOR.pools, (0, 2, 4)),
        describe(DESCRIPTOR.groups, DESCRIPTOR.pools, ()),
        describe((Group("x"),) * 200, DESCRIPTOR.pools, (0,)),
        describe(DESCRIPTOR.groups, (Pool("GPU", "GPU", 0, -1),), (0,)),
    ],
)
def test_a_descriptor_that_gives_indices_another_meaning_is_refused(changed) -> None:
    world = World()
    with pytest.raises(BadMessage):
        world.fold.apply(world.teller.describe(changed))
    assert world.fold.descriptor == DESCRIPTOR


@pytest.mark.parametrize(
    "older",
    [
        describe(DESCRIPTOR.groups[:1], DESCRIPTOR.pools, DESCRIPTOR.block_sizes),
        describe(DESCRIPTOR.groups, DESCRIPTOR.pools[:1], DESCRIPTOR.block_sizes),
        describe((Group(""), Group("", 0)), DESCRIPTOR.pools, DESCRIPTOR.block_sizes),
    ],
)
def test_a_descriptor_from_before_takes_nothing_back(older) -> None:
    world = World()
    world.fold.apply(world.teller.describe(older))
    assert world.fold.descriptor == DESCRIPTOR


def test_what_a_batch_tells_of_the_engine_holds_for_its_own_events() -> None:
    fold, teller = ResidencyMap(NOT_TOLD), Teller()
    message = teller.tell(store(1, place=WINDOW))
    with pytest.raises(BadMessage):
        fold.apply(message)
    assert (fold.descriptor, len(fold.entries)) == (NOT_TOLD, 0)
    header = msgspec.structs.replace(message.header, descriptor=encode_descriptor(DESCRIPTOR))
    fold.apply(decode(encode(header, message.columns)))
    assert (fold.descriptor, fold.places()) == (DESCRIPTOR, [WINDOW])


def test_a_bad_batch_leaves_the_descriptor_as_it_was() -> None:
    fold, teller = ResidencyMap(NOT_TOLD), Teller()
    message = teller.tell(store(1, size=900))
    header = msgspec.structs.replace(message.header, descriptor=encode_descriptor(DESCRIPTOR))
    with pytest.raises(BadMessage):
        fold.apply(Message(header, message.columns))
    assert (fold.descriptor, fold.next_seq) == (NOT_TOLD, 0)


def test_after_a_batch_that_could_not_be_read_whole_no_medium_is_wholly_told() -> None:
    world = World()
    message = world.teller.tell(store(1), clear())
    message.columns.cause = np.array([Cause.error, *message.columns.cause[1:]], np.uint8)
    world.fold.apply(message)
    assert not world.fold.known


def test_faults_that_nobody_takes_are_bounded_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residency_faults, "MAX_FAULTS", 3)
    world = World()
    world.tell(remove(1, 2, 3, 4, 5))
    assert len(world.faults()) == 3
    assert world.fold.faults_dropped == 2


def test_a_fault_says_where_and_when() -> None:
    world = World()
    world.tell(store(1), remove(2, place=CPU))
    assert world.fold.take_faults() == [ResidencyFault("remove_unknown", 2, CPU, 2, T0_NS, True)]
    assert world.fold.places() == [GPU, CPU]


numbers = st.integers(0, 12)
operations = st.tuples(
    st.sampled_from([Kind.StepStarted, Kind.CacheCleared, Kind.ResidencyStored, Kind.ResidencyRemoved]),
    st.sampled_from(sorted(Cause)),
    st.lists(st.tuples(numbers, st.integers(-3, 12)), max_size=4),
    st.sampled_from([0, 1, 2, 255, NO_ORDINAL]),
    st.sampled_from([0, 1, 2, 255]),
    st.sampled_from([0, 1, 2]),
    st.sampled_from([0, 1, 2, 3, 900]),
)


@given(told=st.lists(st.tuples(numbers, numbers, st.lists(operations, max_size=6)), max_size=4))
@settings(max_examples=150, deadline=None)
def test_whatever_passes_the_codec_is_refused_or_folded_in_order(told) -> None:
    fold = ResidencyMap(DESCRIPTOR)
    for hash0, num_hashes, made in told:
        rows = [row if kind in RESIDENCY_KINDS else [] for kind, _, row, *_ in made]
        columns = Columns(
            np.array([one[0] for one in made], np.uint8), np.array([one[1] for one in made], np.uint8),
            np.full(len(made), NO_ORDINAL, np.uint32), np.array([len(row) for row in rows], np.uint32),
            np.array([one[3] for one in made], np.uint32),
            np.array([one[4] | one[5] << 8 | one[6] << 16 for one in made], np.uint32),
            np.array([ordinal for row in rows for ordinal, _ in row], np.uint32),
            np.array([parent for row in rows for _, parent in row], np.int32),
            b"".join(map(hash_of, range(num_hashes))),
        )  # fmt: skip
        header = msgspec.structs.replace(Teller().tell().header, hash0=hash0, n=columns.num_events)
        before = fold.copy()
        try:
            fold.apply(decode(encode(header, columns)))
        except BadMessage:
            assert dump(fold) == dump(before)
        fold.check_integrity(with_hashes=False)
