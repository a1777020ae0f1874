"""What a signal is: one thing that engines tell, under one name here, whatever each of them calls it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from kvxray_backend.figure import Certainty, Unit
from kvxray_backend.metrics.names import FAMILIES, Family

Kind = Literal["gauge", "counter", "histogram"]
# How what several engines (or data-parallel ranks) tell becomes one number. Ratios are never averaged: an empty engine
# would hide a full one. Tensor-parallel ranks of one engine repeat each other and are not several.
Combine = Literal["sum", "max"]


@dataclass(frozen=True, slots=True)
class Term:
    """One metric. `names`: canonical and without `_total`, today's first, then what it was called before; the first
    that an engine tells counts, since a release between two names tells both. `only`: label values that count; empty:
    all of them.
    """

    names: tuple[str, ...]
    only: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Told:
    """One way that a family tells a signal: the sum of `terms`, all of which an engine must tell.

    split: the label that tells its parts apart, empty for none. times: the name of a signal that turns its unit into
    ours, told by the same page (blocks times tokens a block). factor: a fixed one (GB to bytes).
    """

    terms: tuple[Term, ...]
    split: str = ""
    times: str = ""
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Signal:
    """`told`: of each family, the ways it may be told, the best first. `certainty`: exact where the engine counts every
    case, derived where it samples, or tells only how it stands at the moment it is asked.
    """

    name: str
    unit: Unit
    kind: Kind
    combine: Combine
    certainty: Certainty
    meaning: str
    told: Mapping[Family, tuple[Told, ...]]

    @property
    def split_labels(self) -> tuple[str, ...]:
        ways = [way.split for family in self.told.values() for way in family if way.split]
        return tuple(dict.fromkeys(ways))


def told(
    *names: str, split: str = "", times: str = "", factor: float = 1.0, **only: tuple[str, ...]
) -> tuple[Told, ...]:
    """The usual case: one metric, by its names."""
    return (Told((Term(names, only),), split, times, factor),)


def gauge(name: str, unit: Unit, combine: Combine, meaning: str, **by: tuple[Told, ...]) -> Signal:
    return Signal(name, unit, "gauge", combine, "derived", meaning, _families(by))


def counter(name: str, unit: Unit, meaning: str, **by: tuple[Told, ...]) -> Signal:
    return Signal(name, unit, "counter", "sum", "exact", meaning, _families(by))


def histogram(name: str, unit: Unit, meaning: str, **by: tuple[Told, ...]) -> Signal:
    """Its quantiles are of buckets, so derived."""
    return Signal(name, unit, "histogram", "sum", "derived", meaning, _families(by))


def _families(by: Mapping[str, tuple[Told, ...]]) -> Mapping[Family, tuple[Told, ...]]:
    known: dict[Family, tuple[Told, ...]] = {}
    for family in FAMILIES:
        if family in by:
            known[family] = by[family]
    assert len(known) == len(by), f"no such family of metrics: {set(by) - set(known)}"
    return known
