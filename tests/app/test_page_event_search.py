"""Events are found from the newest backwards, each once, whatever the windows in which they are read."""

from __future__ import annotations

from typing import Any

import pytest
from kvxray_app.event_search import LOOK_AT_MOST, WINDOW, Wanted, number_of, search_back, search_up_to
from kvxray_app.event_words import KINDS
from kvxray_engine.stream.schema import Kind


class Log:
    """Events `first` to `last` of epoch 3, without those in `missing`; counts how often it is read."""

    def __init__(self, first: int, last: int, missing: range = range(0)) -> None:
        self.numbers = [at for at in range(first, last + 1) if at not in missing]
        self.reads = 0

    def read(self, first: int, limit: int) -> list[dict[str, Any]]:
        self.reads += 1
        return [self.event(at) for at in self.numbers if at >= first][:limit]

    def event(self, number: int) -> dict[str, Any]:
        kind = "BlockFreed" if number % 10 == 0 else "BlockFilled"
        return {"seq": f"3.{number}", "kind": kind, "request_id": f"agent-{number % 4}", "block_id": number % 7}


@pytest.mark.parametrize(
    "wanted", [Wanted(), Wanted(kinds=frozenset({"BlockFreed"})), Wanted(request="agent-1"), Wanted(block=3)]
)
def test_going_back_page_by_page_meets_every_wanted_event_once(wanted: Wanted) -> None:
    log = Log(50, 7000, missing=range(3000, 4500))
    met: list[int] = []
    before, is_all = 7001, False
    while not is_all:
        found = search_back(log.read, 50, before, wanted, 200)
        met += [number_of(event) for event in found.events]
        before, is_all = found.first, found.is_all
    assert met == [at for at in reversed(log.numbers) if wanted.fits(log.event(at))]


def test_without_a_filter_one_read_is_enough() -> None:
    log = Log(0, 9999)
    found = search_back(log.read, 0, 10_000, Wanted(), 200)
    assert (log.reads, len(found.events), found.first, found.last) == (1, 200, 9800, 9999)


def test_search_for_what_is_not_there_stops_and_can_go_on() -> None:
    log = Log(0, 3 * LOOK_AT_MOST)
    found = search_back(log.read, 0, 3 * LOOK_AT_MOST + 1, Wanted(request="nobody"), 200)
    assert (found.events, found.is_all) == ([], False)
    assert log.reads == LOOK_AT_MOST // WINDOW
    assert found.last - found.first + 1 == LOOK_AT_MOST


def test_nothing_stored_is_nothing_found() -> None:
    found = search_back(Log(0, -1).read, 0, 0, Wanted(), 200)
    assert (found.events, found.is_all) == ([], True)


def test_kinds_are_those_of_the_stream_in_their_order() -> None:
    assert tuple(kind.name for kind in Kind) == KINDS


class SparseLog(Log):
    """As engines that tell of hashes number theirs: a batch begins at each 2^20."""

    def __init__(self, batches: int) -> None:
        self.numbers = [(batch << 20) + at for batch in range(batches) for at in range(3)]
        self.reads = 0

    def read(self, last: int, limit: int) -> list[dict[str, Any]]:
        self.reads += 1
        return [self.event(at) for at in self.numbers if at <= last][-limit:]

    def event(self, number: int) -> dict[str, Any]:
        return {**super().event(number), "kind": "ResidencyStored", "hash": f"{number:016x}", "block_id": None}


@pytest.mark.parametrize("wanted", [Wanted(), Wanted(hash="00001"), Wanted(kinds=frozenset({"CacheCleared"}))])
def test_numbers_may_leave_gaps_of_any_size(wanted: Wanted) -> None:
    log = SparseLog(1500)
    met: list[int] = []
    before, is_all = log.numbers[-1] + 1, False
    while not is_all:
        found = search_up_to(log.read, before, wanted, 200)
        met += [number_of(event) for event in found.events]
        before, is_all = found.first, found.is_all
    assert met == [at for at in reversed(log.numbers) if wanted.fits(log.event(at))]
    assert log.reads < 60


def test_a_search_up_to_stops_too_and_nothing_stored_is_nothing_found() -> None:
    log = SparseLog(LOOK_AT_MOST)
    found = search_up_to(log.read, log.numbers[-1] + 1, Wanted(hash="nobody"), 200)
    assert (found.events, found.is_all) == ([], False)
    assert log.reads == LOOK_AT_MOST // WINDOW
    assert search_up_to(SparseLog(0).read, 5, Wanted(), 200).is_all
