"""Counters that several tell, as one counter that falls only where all of them began anew. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic

from kvxray_backend.metrics.histograms import Buckets
from kvxray_backend.metrics.series import Amount


@dataclass(frozen=True, slots=True)
class Counted(Generic[Amount]):
    """What one teller has counted in the life that it is in. began_with: what it had when it was first seen."""

    told: Amount
    began_with: Amount


class Counting(Generic[Amount]):
    """Of one counter. A rank that restarts alone, comes late or goes leaves the sum where it was: what it counted stays
    counted, and what it had counted before it was seen never counts. Where all of them restart the counter does so too,
    as whoever scraped them would see it.
    """

    def __init__(self) -> None:
        self._before: dict[Hashable, Amount] = {}
        self._carried: Any = None

    def look(self, told: Mapping[Hashable, Counted[Amount]]) -> Amount | None:
        """Now; None: nobody tells, or histograms have different buckets."""
        before, self._before = self._before, {teller: one.told for teller, one in told.items()}
        fell = {teller for teller in before if teller in told and _is_below(told[teller].told, before[teller])}
        if len(fell) == len(before):
            self._carried = None
        else:
            gone = [amount for teller, amount in before.items() if teller in fell or teller not in told]
            came = [one.began_with for teller, one in told.items() if teller not in before]
            self._carried = _sum(gone, self._carried, came)
        total: Amount | None = _sum([*self._before.values()], self._carried, []) if told else None
        return total


def _sum(amounts: Sequence[Any], more: Any, taken: Sequence[Any]) -> Any:
    """Of numbers, or of histograms. None: there is nothing, or histograms have different buckets."""
    added = [*amounts] if more is None else [*amounts, more]
    every = [*added, *taken]
    if not every or not _fit(every):
        return None
    total = every[0] - every[0]
    for one in added:
        total = total + one
    for one in taken:
        total = total - one
    return total


def _fit(amounts: Sequence[object]) -> bool:
    return len({one.bounds for one in amounts if isinstance(one, Buckets)}) <= 1


def _is_below(told: Amount, before: Amount) -> bool:
    if isinstance(told, Buckets):
        return isinstance(before, Buckets) and told.is_below(before)
    return not isinstance(before, Buckets) and told < before


class SteadyCount:
    """A count of events of one life of an engine. Where it is lower than before, since the stream was joined anew and
    less of it is known, it stays where it was and goes on from there; with another life it begins anew.
    """

    def __init__(self) -> None:
        self._life: Hashable = None
        self._last = self._lift = 0.0

    def look(self, life: Hashable, told: float) -> float:
        if life != self._life:
            self._life, self._lift = life, 0.0
        elif told < self._last:
            self._lift += self._last - told
        self._last = told
        return told + self._lift
