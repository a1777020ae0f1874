"""The fold of hashes once more, one event at a time, with dictionaries: slow and obvious, to judge the fast one by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from kvxray_engine.stream.residency_descriptor import ANY_GROUP, group_of, medium_of, place_of
from kvxray_engine.stream.schema import Cause, Kind

from tests.engine.stream.residency_teller import Event

Key = tuple[int, int]
"""Hash ordinal and place."""


class PlainResidency:
    """`sure`: hashes that are there even if repeated stores were reports. `faults`: (kind, hash) in order of time."""

    def __init__(self, semantics: str, num_groups: int) -> None:
        self.semantics = semantics
        self.num_groups = num_groups
        self.copies: Counter[Key] = Counter()
        self.sure: set[Key] = set()
        self.parents: dict[Key, int] = {}
        self.stores: Counter[Key] = Counter()
        self.removals: Counter[Key] = Counter()
        self.reuses: Counter[Key] = Counter()
        self.seen: set[int] = set()
        self.faults: list[tuple[str, int]] = []

    def apply(self, events: Sequence[Event]) -> None:
        """One message."""
        for is_any, run in groupby(events, lambda event: group_of(event.place) == ANY_GROUP):
            if is_any:
                # What was there before all of them counts.
                self._remove_all([(one, event.place) for event in run for one in event.hashes])
            else:
                for event in run:
                    self._apply(event)

    def _apply(self, event: Event) -> None:
        if event.kind == Kind.CacheCleared:
            for key in [key for key in self.copies if event.medium in (255, medium_of(key[1]))]:
                del self.copies[key]
                self.sure.discard(key)
        elif event.kind == Kind.ResidencyStored:
            self._store(event)
        elif event.kind == Kind.ResidencyRemoved:
            for one in event.hashes:
                self._remove(one, event.place)

    def is_anywhere(self, one: int) -> bool:
        return any(count for (other, _), count in self.copies.items() if other == one)

    def reachable(self, place: int) -> list[int]:
        return [one for one in self.residents(place) if self._way(one, group_of(place)) == "root"]

    def unreachable(self, place: int) -> list[int]:
        return [one for one in self.residents(place) if self._way(one, group_of(place)) == "broken"]

    def residents(self, place: int) -> list[int]:
        return sorted(one for (one, where), count in self.copies.items() if where == place and count)

    def _way(self, one: int, group: int) -> str:
        visited = set()
        while one != -1:
            if one in visited or not any(self.copies[key] for key in list(self.copies) if _is(key, one, group)):
                return "broken"
            visited.add(one)
            told = [parent for key, parent in self.parents.items() if _is(key, one, group)]
            if not told:
                return "untold"
            one = min(told)
        return "root"

    def _store(self, event: Event) -> None:
        whole = event.parent == -1 and event.cause != Cause.placeholder
        # Row by row, what is there by then: a chain may name a hash twice.
        repeats = []
        for one, parent in zip(event.hashes, event.values, strict=True):
            key = (one, event.place)
            repeats.append(self.copies[key] > 0)
            is_first = len(repeats) == 1
            if event.cause != Cause.placeholder:
                if is_first and parent >= 0 and not self.is_anywhere(parent):
                    self.faults.append(("store_on_missing_parent" if parent in self.seen else "orphan_parent", parent))
                self.parents[key] = parent
            is_report = event.cause == Cause.reuse_report or self.semantics == "reuse"
            self.copies[key] = max(self.copies[key], 1) if is_report else self.copies[key] + 1
            self.sure.add(key)
            self.seen.add(one)
            self.stores[key] += 1
        is_whole = whole and all(repeats)
        for one, is_repeat in zip(event.hashes, repeats, strict=True):
            if is_repeat and (
                self.semantics == "reuse"
                or event.cause == Cause.reuse_report
                or (self.semantics == "unknown" and is_whole)
            ):
                self.reuses[one, event.place] += 1
            elif is_repeat and self.semantics == "unknown" and event.cause != Cause.placeholder:
                self.faults.append(("duplicate_store", one))

    def _remove_all(self, hashes: list[tuple[int, int]]) -> None:
        places = []
        for one, any_group in hashes:
            each = [place_of(group, medium_of(any_group)) for group in range(self.num_groups)]
            places += [(one, place) for place in each if self.copies[one, place]] or [(one, each[0])]
        for one, place in places:
            self._remove(one, place)

    def _remove(self, one: int, place: int) -> None:
        if not self.copies[one, place]:
            self.faults.append(("remove_unknown", one))
        self.copies[one, place] = max(0, self.copies[one, place] - 1)
        self.sure.discard((one, place))
        self.removals[one, place] += 1


def _is(key: Key, one: int, group: int) -> bool:
    return key[0] == one and group_of(key[1]) == group
