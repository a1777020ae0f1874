"""The fold of hashes against one with dictionaries, after every message, whatever an engine tells."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from kvxray_engine.stream import residency_snapshot
from kvxray_engine.stream.joining import join
from kvxray_engine.stream.residency_descriptor import ANY_GROUP, place_of
from kvxray_engine.stream.residency_map import ResidencyMap
from kvxray_engine.stream.residency_state import Certainty
from kvxray_engine.stream.schema import Cause

from tests.engine.stream.plain_residency import PlainResidency
from tests.engine.stream.residency_teller import (
    CPU,
    DESCRIPTOR,
    GPU,
    WINDOW,
    Event,
    Teller,
    clear,
    placeholder,
    remove,
    store,
)

PLACES = (GPU, CPU, WINDOW, place_of(1, 1))
COUNTED = ("orphan_parent", "store_on_missing_parent", "duplicate_store", "remove_unknown")

hashes = st.integers(0, 11)
chains = st.lists(hashes, min_size=1, max_size=4)
places = st.sampled_from(PLACES)
events = st.one_of(
    st.builds(
        lambda chain, parent, place, is_report: store(
            *chain, parent=parent, place=place, cause=Cause.reuse_report if is_report else Cause.store
        ),
        chains,
        st.integers(-1, 11),
        places,
        st.integers(0, 4).map(lambda one: one == 0),
    ),
    st.builds(lambda chain, place: remove(*chain, place=place), chains, places),
    st.builds(lambda chain: remove(*chain, place=place_of(ANY_GROUP, 0)), chains),
    st.builds(lambda chain: placeholder(*chain), chains),
    st.sampled_from([0, 1, 255]).map(clear),
)
messages = st.lists(events, max_size=8)


class ResidencyMachine(RuleBasedStateMachine):
    @initialize(semantics=st.sampled_from(["copies", "reuse", "unknown"]))
    def begin(self, semantics: str) -> None:
        self.teller = Teller()
        self.fold = ResidencyMap(DESCRIPTOR, store_semantics=semantics)
        self.plain = PlainResidency(semantics, len(DESCRIPTOR.groups))

    @rule(told=messages)
    def a_message(self, told: list[Event]) -> None:
        before = {place: self.copies_in(place) for place in PLACES}
        touched = self.fold.apply(self.teller.tell(*told))
        self.plain.apply(told)
        changed = {
            (ordinal, place)
            for place in PLACES
            for ordinal in set(self.copies_in(place)) | set(before[place])
            if self.copies_in(place).get(ordinal) != before[place].get(ordinal)
        }
        keys = {(int(key) >> 16, int(key) & 0xFFFF) for key in touched.tolist()}
        assert changed <= keys

    @rule(first=messages, second=messages)
    def two_messages_joined(self, first: list[Event], second: list[Event]) -> None:
        self.fold.apply(join([self.teller.tell(*first), self.teller.tell(*second)]))
        self.plain.apply(first)
        self.plain.apply(second)

    @rule()
    def it_goes_on_from_a_snapshot(self) -> None:
        self.same_faults()
        data = residency_snapshot.dump(self.fold)
        self.fold = residency_snapshot.load(data)
        assert residency_snapshot.dump(self.fold) == data

    @rule(told=messages)
    def it_goes_on_from_a_copy(self, told: list[Event]) -> None:
        self.same_faults()
        left = self.fold
        self.fold = left.copy()
        # What the other one is told afterwards does not reach the copy.
        left.apply(Teller(hashes=self.teller.hashes).tell(*told))

    @invariant()
    def same_faults(self) -> None:
        if not hasattr(self, "fold"):
            return
        told = [(fault.kind, fault.ordinal) for fault in self.fold.take_faults() if fault.kind in COUNTED]
        assert sorted(told) == sorted(self.plain.faults)
        self.plain.faults.clear()

    @invariant()
    def same_state(self) -> None:
        if not hasattr(self, "fold"):
            return
        self.fold.check_integrity()
        for place in PLACES:
            expected = {one: n for (one, where), n in self.plain.copies.items() if where == place and n}
            assert self.copies_in(place) == expected
            self.same_certainty(place, expected)
            assert self.fold.reachable(place).tolist() == self.plain.reachable(place)
            if place & 0xFF == 0:
                assert self.fold.unreachable(place).tolist() == self.plain.unreachable(place)
        self.same_counters()

    def same_certainty(self, place: int, expected: dict[int, int]) -> None:
        everything = np.arange(12, dtype=np.uint32)
        for one, certainty in enumerate(self.fold.certainty_of(everything, place).tolist()):
            is_sure = self.plain.semantics == "copies" or (one, place) in self.plain.sure
            there = Certainty.certain if is_sure else Certainty.maybe
            assert certainty == (there if one in expected else Certainty.gone)

    def same_counters(self) -> None:
        keys = self.fold.entries.index.keys_by_row().tolist()
        for column in ("stores", "removals", "reuses"):
            told = {
                (key >> 16, key & 0xFFFF): n for key, n in zip(keys, self.fold.entries[column].tolist(), strict=True)
            }
            assert {key: n for key, n in told.items() if n} == dict(getattr(self.plain, column))

    def copies_in(self, place: int) -> dict[int, int]:
        ordinals = self.fold.residents(place)
        return dict(zip(ordinals.tolist(), self.fold.copies(ordinals, place).tolist(), strict=True))


TestResidency = ResidencyMachine.TestCase
TestResidency.settings = settings(
    max_examples=25,
    stateful_step_count=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
