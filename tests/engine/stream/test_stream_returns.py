"""Hashes that go and come back: counted by removal of the last copy, whatever else happens to them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kvxray_engine.stream import residency_returns
from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.residency_map import ResidencyMap
from kvxray_engine.stream.residency_returns import ReturnBook
from kvxray_engine.stream.residency_state import StoreSemantics
from kvxray_engine.stream.schema import Kind

from tests.engine.stream.residency_teller import CPU, DESCRIPTOR, GPU, Event, Teller, clear, remove, store


@dataclass
class Told:
    """A fold that notes what came back, and the engine that tells it."""

    semantics: StoreSemantics = "copies"
    teller: Teller = field(default_factory=Teller)

    def __post_init__(self) -> None:
        self.fold = ResidencyMap(DESCRIPTOR, store_semantics=self.semantics)
        self.book = self.fold.returns = ReturnBook()

    def tell(self, *events: Event) -> Message:
        message = self.teller.tell(*events)
        self.fold.apply(message)
        self.fold.check_integrity()
        return message

    def copies(self, ordinal: int) -> int:
        return int(self.fold.copies(np.array([ordinal], np.uint32), GPU)[0])

    def returned(self) -> list[tuple[int, int]]:
        """Ordinal and place of each, once for each time."""
        return sorted((key >> 16, key & 0xFFFF) for key in self.book.take().keys.tolist())


def test_what_is_stored_again_after_its_removal_came_back_and_is_told_once() -> None:
    told = Told()
    told.tell(store(1, 2))
    gone = told.tell(remove(2))
    came = told.tell(store(2, parent=1))
    found = told.book.take()
    assert found.keys.tolist() == [2 << 16 | GPU]
    assert (found.gone_ns.tolist(), found.came_ns.tolist()) == ([gone.header.t0_wall_ns], [came.header.t0_wall_ns])
    assert told.returned() == []
    assert (told.book.evicted, told.book.returned) == (1, 1)


def test_a_first_store_is_no_return_and_neither_is_one_after_a_removal_of_what_never_was() -> None:
    told = Told()
    told.tell(remove(1))
    told.tell(store(1), store(2))
    assert (told.returned(), told.book.evicted) == ([], 0)


def test_one_of_two_copies_that_goes_is_no_eviction() -> None:
    told = Told()
    told.tell(store(1), store(1))
    told.tell(remove(1))
    told.tell(store(1))
    assert (told.returned(), told.book.evicted) == ([], 0)


def test_a_reset_is_no_eviction_unless_it_went_after_it() -> None:
    told = Told()
    told.tell(store(1, 2))
    told.tell(remove(2))
    told.tell(clear(0))
    told.tell(store(1, 2))
    assert told.returned() == []
    told.tell(remove(2))
    told.tell(store(2, parent=1))
    assert told.returned() == [(2, GPU)]


def test_a_reset_of_another_medium_changes_nothing() -> None:
    told = Told()
    told.tell(store(1), store(1, place=CPU))
    told.tell(remove(1), remove(1, place=CPU))
    told.tell(clear(1))
    told.tell(store(1), store(1, place=CPU))
    assert told.returned() == [(1, GPU)]


def test_a_store_of_before_the_removal_that_came_late_is_no_return() -> None:
    told, late = Told(), Told()
    first = late.tell(store(1))
    told.tell(store(1))
    told.tell(remove(1))
    told.fold.apply(first)
    assert (told.returned(), told.copies(1)) == ([], 1)


def test_a_removal_of_what_is_gone_already_changes_nothing() -> None:
    told = Told()
    told.tell(store(1), remove(1), remove(1), store(1))
    assert (told.returned(), told.book.evicted) == ([(1, GPU)], 1)


@pytest.mark.parametrize("semantics", ["copies", "reuse", "unknown"])
def test_a_copy_of_the_fold_goes_on_by_itself(semantics: StoreSemantics) -> None:
    told = Told(semantics)
    told.tell(store(1), remove(1))
    other = told.fold.copy()
    told.tell(store(1))
    assert (told.book.returned, other.returns is not told.book, other.returns and other.returns.returned) == (
        1,
        True,
        0,
    )


def test_what_nobody_takes_is_bounded_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residency_returns, "MAX_RETURNS", 5)
    told = Told()
    for _ in range(3):
        told.tell(store(1, 2, 3), remove(1, 2, 3))
    told.tell(store(1, 2, 3))
    assert (len(told.returned()), told.book.returned) == (5, 9)
    told.tell(remove(1), store(1))
    assert told.returned() == [(1, GPU)]


def plain_returns(messages: list[list[Event]]) -> tuple[int, list[int]]:
    """Evictions and returns, the plain way: a count and a mark for each hash."""
    copies: dict[int, int] = {}
    gone: set[int] = set()
    evicted, returned = 0, []
    for event in (event for events in messages for event in events):
        for one in event.hashes:
            had = copies.get(one, 0)
            if event.kind == Kind.ResidencyStored:
                returned += [one] if one in gone else []
                gone.discard(one)
                copies[one] = had + 1
            else:
                copies[one] = max(had - 1, 0)
                if had == 1:
                    gone.add(one)
                    evicted += 1
        if event.kind == Kind.CacheCleared:
            copies.clear()
            gone.clear()
    return evicted, sorted(returned)


EVENTS = st.lists(
    st.one_of(
        st.lists(st.builds(lambda one, is_store: store(one) if is_store else remove(one),
                           st.integers(1, 4), st.booleans()), min_size=1, max_size=12),
        st.just([clear(0)]),
    ),
    max_size=8,
)  # fmt: skip


def without_removals_of_what_a_reset_took(messages: list[list[Event]]) -> list[list[Event]]:
    """No engine tells them, and the fold remembers of what is gone only when it was last told of."""
    there: set[int] = set()
    kept: list[list[Event]] = []
    for events in messages:
        kept.append([])
        for event in events:
            if event.kind == Kind.CacheCleared:
                there.clear()
            elif event.kind == Kind.ResidencyStored:
                there.update(event.hashes)
            elif not there.issuperset(event.hashes):
                continue
            kept[-1].append(event)
    return kept


@settings(deadline=None)
@given(EVENTS)
def test_it_agrees_with_counting_one_by_one(messages: list[list[Event]]) -> None:
    told = Told()
    messages = without_removals_of_what_a_reset_took(messages)
    for events in messages:
        told.tell(*events)
    evicted, returned = plain_returns(messages)
    assert told.book.evicted == evicted
    assert [ordinal for ordinal, _ in told.returned()] == returned


def test_the_fold_is_the_same_with_the_book_and_without() -> None:
    told, plain = Told(), ResidencyMap(DESCRIPTOR, store_semantics="copies")
    for events in ([store(1, 2)], [remove(2)], [store(2, parent=1), remove(1)], [clear(0)], [store(1)]):
        plain.apply(told.tell(*events))
    for column in ("copies", "stores", "removals", "t_last"):
        assert np.array_equal(told.fold.entries[column], plain.entries[column])
