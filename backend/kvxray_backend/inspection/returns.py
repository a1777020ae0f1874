"""Churn: hashes stored again where they had been removed. Copies are counted, since one of several is not all."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from kvxray_backend.sources.foreign.media import tier_of
from kvxray_backend.sources.foreign.told import Cleared, Hash, Moved, Place, Removed, Stored, Told

MAX_GONE: Final = 1 << 19
"""Removed hashes of a place that are remembered; of those before them it is forgotten that they were ever there."""
MAX_PLACES: Final = 256
"""Media and groups together that are looked at; engines have a few."""

_Where = tuple[str, int]
"""Medium in upper case, and group."""


@dataclass(slots=True)
class _Kept:
    """Of one place: copies by hash, and what was removed, the latest last. Invariant: what is gone has no copies."""

    copies: dict[Hash, int] = field(default_factory=dict)
    # Ordered: the first key of a plain dict is found by a look at each that was removed before it.
    gone: OrderedDict[Hash, None] = field(default_factory=OrderedDict)

    def take(self, one: Hash) -> bool:
        """Whether that was the last copy."""
        count = self.copies.get(one, 0)
        if count > 1:
            self.copies[one] = count - 1
        elif count == 1:
            del self.copies[one]
        return count == 1


class Returns:
    """Of one stream. `num_returned`: stores of a hash that had been there and was removed, each time it came back."""

    def __init__(self) -> None:
        self.num_returned = 0
        self._places: dict[_Where, _Kept] = {}

    def note(self, event: Told) -> None:
        if isinstance(event, Stored):
            self._store(event.hashes, event.place)
        elif isinstance(event, Removed):
            self._remove(event)
        elif isinstance(event, Moved):
            kept = self._places.get(_where(event.source))
            if kept is not None:
                for one in event.hashes:
                    kept.take(one)
            self._store(event.hashes, event.target)
        elif isinstance(event, Cleared):
            self._clear(event.medium.upper())

    def forget(self) -> None:
        """Another life of the engine begins: nothing of the one before comes back."""
        self._places = {}

    def check_integrity(self) -> None:
        """Asserts the invariant, and that it is bounded."""
        assert len(self._places) <= MAX_PLACES, "too many places are looked at"
        for kept in self._places.values():
            assert not kept.copies.keys() & kept.gone.keys(), "a hash is gone and there"
            assert all(count > 0 for count in kept.copies.values()), "a hash is there without a copy"
            assert len(kept.gone) <= MAX_GONE, "too much is remembered"

    def _store(self, hashes: tuple[Hash, ...], place: Place) -> None:
        where = _where(place)
        if where not in self._places and len(self._places) >= MAX_PLACES:
            return
        kept = self._places.setdefault(where, _Kept())
        for one in hashes:
            if one in kept.gone:
                del kept.gone[one]
                self.num_returned += 1
            kept.copies[one] = kept.copies.get(one, 0) + 1

    def _remove(self, event: Removed) -> None:
        for where in self._meant(event):
            kept = self._places[where]
            for one in event.hashes:
                if kept.take(one):
                    kept.gone[one] = None
            while len(kept.gone) > MAX_GONE:
                kept.gone.popitem(last=False)

    def _meant(self, event: Removed) -> list[_Where]:
        """Places that lose a copy where they have one."""
        medium, group = _where(event.place)
        if not (event.is_any_group or event.is_any_medium):
            return [(medium, group)] if (medium, group) in self._places else []
        return [
            where
            for where in self._places
            if (event.is_any_medium or where[0] == medium) and (event.is_any_group or where[1] == group)
        ]

    def _clear(self, medium: str) -> None:
        for (told, _), kept in self._places.items():
            if told == medium or (not medium and tier_of(told) == "GPU"):
                kept.copies.clear()


def _where(place: Place) -> _Where:
    return place.medium.upper() or "GPU", place.group
