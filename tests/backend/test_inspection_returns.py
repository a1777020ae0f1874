"""Churn: what comes back to where it was removed from, each time, and nothing else."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from kvxray_backend.inspection import returns
from kvxray_backend.inspection.returns import Returns
from kvxray_backend.sources.foreign.told import Cleared, Moved, Place, Removed, Stored, Told


def stored(*names: bytes, medium: str = "", group: int = 0) -> Stored:
    return Stored(names, None, 16, None, Place(medium, group))


def removed(*names: bytes, medium: str = "", group: int = 0, **more: bool) -> Removed:
    return Removed(names, Place(medium, group), **more)


def num_returned(*events: Told) -> int:
    counted = Returns()
    for event in events:
        counted.note(event)
        counted.check_integrity()
    return counted.num_returned


def test_what_was_removed_and_is_stored_again_came_back_each_time() -> None:
    assert num_returned(stored(b"a", b"b"), removed(b"a"), stored(b"a")) == 1
    assert num_returned(*[stored(b"a"), removed(b"a")] * 4) == 3


def test_a_second_copy_did_not_come_back() -> None:
    assert num_returned(stored(b"a"), stored(b"a"), removed(b"a"), stored(b"a")) == 0
    assert num_returned(stored(b"a"), stored(b"a"), removed(b"a"), removed(b"a"), stored(b"a")) == 1


def test_other_media_and_groups_are_other_places() -> None:
    assert num_returned(stored(b"a"), removed(b"a"), stored(b"a", medium="CPU"), stored(b"a", group=1)) == 0
    assert num_returned(stored(b"a", medium="gpu"), removed(b"a"), stored(b"a", medium="GPU")) == 1


def test_a_removal_that_names_no_place_takes_from_each_that_has_it() -> None:
    before = [stored(b"a"), stored(b"a", group=1)]
    after = [stored(b"a"), stored(b"a", group=1)]
    assert num_returned(*before, removed(b"a", is_any_group=True), *after) == 2
    both = [stored(b"a"), stored(b"a", medium="CPU")]
    assert num_returned(*both, removed(b"a", is_any_medium=True), *both) == 2


def test_what_was_never_there_moved_or_was_cleared_does_not_come_back() -> None:
    assert num_returned(removed(b"a"), stored(b"a")) == 0
    assert num_returned(stored(b"a"), Cleared(), stored(b"a")) == 0
    assert num_returned(stored(b"a"), Moved((b"a",), Place("GPU"), Place("CPU")), stored(b"a")) == 0


def test_a_clear_takes_what_is_on_its_medium_only() -> None:
    events = [stored(b"a"), stored(b"a"), stored(b"b", medium="CPU"), stored(b"b", medium="CPU")]
    after = [removed(b"a"), removed(b"b", medium="CPU"), stored(b"b", medium="CPU")]
    # One copy of b is left on the CPU, so that it did not go; of a the clear left none to remove.
    assert num_returned(*events, Cleared(), *after, stored(b"a")) == 0
    assert num_returned(*events, Cleared("cpu"), removed(b"a"), removed(b"a"), stored(b"a")) == 1


def test_nothing_comes_back_from_another_life() -> None:
    counted = Returns()
    for event in (stored(b"a"), removed(b"a")):
        counted.note(event)
    counted.forget()
    counted.note(stored(b"a"))
    assert counted.num_returned == 0


def test_only_so_much_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(returns, "MAX_GONE", 2)
    names = [b"a", b"b", b"c"]
    assert num_returned(stored(*names), removed(*names), stored(*names)) == 2


@pytest.mark.parametrize("seed", range(10))
def test_random_events_are_counted_as_by_hand(seed: int) -> None:
    draw = random.Random(seed)
    events: list[Stored | Removed] = [
        draw.choice((stored, removed))(bytes([draw.randrange(4)]), group=draw.randrange(2)) for _ in range(200)
    ]
    copies: Counter[tuple[bytes, int]] = Counter()
    gone: set[tuple[bytes, int]] = set()
    expected = 0
    for event in events:
        spot = event.hashes[0], event.place.group
        if isinstance(event, Stored):
            expected += spot in gone
            gone.discard(spot)
            copies[spot] += 1
        elif copies[spot]:
            copies[spot] -= 1
            if not copies[spot]:
                gone.add(spot)
    assert expected > 10
    assert num_returned(*events) == expected
