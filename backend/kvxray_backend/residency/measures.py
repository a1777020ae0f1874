"""What can be counted out of the columns of a residency fold: copies, rates, lifetimes, ages, chains. Pure.

Rates and lifetimes follow from the state alone, for the present and for any past moment alike, and nobody has to be
asked at the right time: a hash that came in a window has its `t_first` there, one that went keeps its times until it is
forgotten (a whole generation later). Each hash counts once, so that what is stored or removed several times within the
window hides some of it: then what is counted is too low, and it is said.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from kvxray_engine.stream.columns import I8, U4
from kvxray_engine.stream.residency_chains import REACHABLE, UNREACHABLE, reach
from kvxray_engine.stream.residency_descriptor import FULL_KINDS
from kvxray_engine.stream.residency_state import first_of_each
from kvxray_engine.stream.schema import NO_ORDINAL, UNKNOWN_U4, Kind
from numpy.typing import NDArray

from kvxray_backend.residency.columns import ResidencyColumns
from kvxray_backend.sources.foreign.media import tier_of

Bools = NDArray[np.bool_]

RATE_WINDOW_S: Final = 60.0
"""Engines remove lazily, in bursts: over less there would be mostly nothing and then very much."""
LIFETIME_WINDOW_S: Final = 600.0
MAX_LOOKED_AT: Final = 1 << 16
"""Entries that medians of what is there are made of: of more, every n-th."""


@dataclass(frozen=True, slots=True)
class Going:
    """Of the hashes that went in the last seconds. `is_low`: there may have been more (some came back, or had several
    copies), or what went may have gone by a reset, which is no eviction.
    """

    evicted: int
    lifetime_p50_s: float | None
    is_low: bool


@dataclass(frozen=True, slots=True)
class Coming:
    """Of the hashes that came in the last seconds, whether or not they went again. `is_low`: some may have been stored
    more than once.
    """

    stored: int
    is_low: bool


def is_on_gpu(columns: ResidencyColumns) -> Bools:
    """Entries that belong to the engine's own cache: on the GPU; of an engine that tells of no GPU, all."""
    is_gpu = np.array([tier_of(pool.name or pool.medium) == "GPU" for pool in columns.descriptor.pools], bool)
    if not is_gpu.any():
        return np.ones(len(columns.keys), bool)
    found: Bools = is_gpu[columns.places >> 8]
    return found


def num_copies(columns: ResidencyColumns, where: Bools) -> int:
    return int(columns.copies[where].sum(dtype=np.int64))


def num_certain(columns: ResidencyColumns, where: Bools) -> int:
    """Copies that are there even if every repeated store only reported a use."""
    told = columns.copies if columns.counts_copies else columns.sure
    return int(told[where].sum(dtype=np.int64))


def num_tokens(columns: ResidencyColumns, where: Bools) -> int | None:
    """Tokens of all copies; None where the size of a block was not told."""
    at = where & columns.is_here
    sizes = np.array(columns.descriptor.block_sizes, np.int64)[columns.block_sizes[at]]
    return None if (sizes == 0).any() else int((sizes * columns.copies[at]).sum())


def coming(columns: ResidencyColumns, where: Bools, now_ns: int, window_s: float) -> Coming:
    """What came in the last seconds."""
    since_ns = now_ns - int(window_s * 1e9)
    came = where & (columns.stores > 0) & (columns.t_first > since_ns)
    again = where & (columns.stores > 1) & (columns.t_last > since_ns)
    return Coming(int(np.count_nonzero(came)), bool(again.any()))


def num_reused(columns: ResidencyColumns, where: Bools, now_ns: int, window_s: float = RATE_WINDOW_S) -> int:
    """Hashes whose last event of the last seconds may have been a report of a hit: each once, however often."""
    since_ns = now_ns - int(window_s * 1e9)
    is_recent = (columns.t_last > since_ns) & (columns.t_last > columns.t_first)
    return int(np.count_nonzero(where & columns.is_here & (columns.reuses > 0) & is_recent))


def going(columns: ResidencyColumns, where: Bools, now_ns: int, window_s: float) -> Going:
    """What went in the last seconds."""
    since_ns = now_ns - int(window_s * 1e9)
    is_gone = where & ~columns.is_here & (columns.stores > 0) & (columns.t_last > since_ns)
    is_evicted = is_gone & (columns.removals > 0)
    hidden = where & (columns.t_last > since_ns) & (columns.removals > ~columns.is_here)
    lived = columns.t_last[is_evicted] - columns.t_first[is_evicted]
    return Going(
        evicted=int(np.count_nonzero(is_evicted)),
        lifetime_p50_s=median_s(lived),
        is_low=bool(hidden.any()) or bool(columns.kind_totals[Kind.CacheCleared] > 0),
    )


def median_s(ns: I8) -> float | None:
    """Median of durations, in seconds; None of none."""
    return max(float(np.median(ns)), 0.0) / 1e9 if len(ns) else None


@dataclass(frozen=True, slots=True)
class Ages:
    """Medians over what is there, at least: how long it has been there, and how long nothing was told of it.
    `is_sample`: of every n-th only.
    """

    age_p50_s: float | None
    idle_p50_s: float | None
    is_sample: bool


def ages(columns: ResidencyColumns, where: Bools, now_ns: int) -> Ages:
    here = np.flatnonzero(where & columns.is_here)
    every = max(-(-len(here) // MAX_LOOKED_AT), 1)
    first, last = columns.t_first[here[::every]], columns.t_last[here[::every]]
    return Ages(median_s(now_ns - first[first > 0]), median_s(now_ns - last[last > 0]), every > 1)


@dataclass(frozen=True, slots=True)
class Reach:
    """Of one place: hashes there, how many of them a prompt can reach, how many it cannot. Both None where the group
    drops blocks of its chains by design.
    """

    hashes: int
    reachable: int | None
    unreachable: int | None


def unreachable_of(columns: ResidencyColumns) -> tuple[Bools, dict[int, Reach]]:
    """Which entries no prompt can reach any more, and the counts of each place that has been told of."""
    ordinals, places = columns.ordinals, columns.places
    groups = places & 0xFF
    is_cut = np.zeros(len(ordinals), bool)
    found: dict[int, Reach] = {}
    for group in np.unique(groups).tolist():
        at = np.flatnonzero(groups == group)
        is_full = columns.descriptor.groups[group].kind in FULL_KINDS
        ends = _reach_of(columns, at, ordinals[at]) if is_full else None
        here = columns.is_here[at]
        if ends is not None:
            is_cut[at] = here & (ends == UNREACHABLE)
        for place in np.unique(places[at]).tolist():
            is_there = here & (places[at] == place)
            told = None if ends is None else ends[is_there]
            found[place] = Reach(
                hashes=int(np.count_nonzero(is_there)),
                reachable=None if told is None else int(np.count_nonzero(told == REACHABLE)),
                unreachable=None if told is None else int(np.count_nonzero(told == UNREACHABLE)),
            )
    return is_cut, found


def _reach_of(columns: ResidencyColumns, at: NDArray[np.intp], ordinals: U4) -> NDArray[np.uint8]:
    """For each entry of one group, whichever medium it is on. The medium that tells most of a hash's parent counts."""
    starts = first_of_each(ordinals)
    parents = columns.parents[at].astype(np.int64)
    parents[parents == NO_ORDINAL] = -1
    least = np.minimum.reduceat(parents, starts)
    least[least < 0] = NO_ORDINAL
    is_there = np.logical_or.reduceat(columns.is_here[at], starts)
    ends = reach(ordinals[starts], least.astype(np.uint32), is_there, is_all_told=columns.is_whole)
    return np.repeat(ends, np.diff(starts, append=len(ordinals)))


def depths(parents: NDArray[np.intp]) -> NDArray[np.intp]:
    """How many come before each; `parents`: where the parent of each is, below 0 for none. No circles."""
    num = len(parents)
    jump = np.append(np.where(parents < 0, num, parents), num)
    steps = np.append((parents >= 0).astype(np.intp), 0)
    deep = np.flatnonzero(jump[:num] < num)
    while len(deep):
        steps[deep] += steps[jump[deep]]
        jump[deep] = jump[jump[deep]]
        deep = deep[jump[deep] < num]
    return steps[:num]


def parents_among(ordinals: U4, parents: U4) -> NDArray[np.intp]:
    """Where among `ordinals` (sorted, each once) the parent of each is; -1 for a root, -2 where it is not here or was
    not told. A link to what was told later, which only nonsense makes, is none.
    """
    at = np.searchsorted(ordinals, parents)
    found = np.where(parents == NO_ORDINAL, -1, -2).astype(np.intp)
    is_sound = (parents < UNKNOWN_U4) & (at < np.arange(len(ordinals)))
    is_sound[is_sound] = ordinals[at[is_sound]] == parents[is_sound]
    found[is_sound] = at[is_sound]
    return found
