"""The figures of an engine that tells of hashes: what its events tell, and what its metrics add. Pure.

What events cannot tell and metrics were not read for is not observable; what was lost on the way makes a figure derived
and taints it with the finding that says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from kvxray_backend.figure import Certainty, Figure, Unit
from kvxray_backend.residency.chain_order import ChainOrder
from kvxray_backend.residency.columns import ResidencyColumns
from kvxray_backend.residency.foreign_source import ForeignMoment, Lately
from kvxray_backend.residency.measures import (
    LIFETIME_WINDOW_S,
    RATE_WINDOW_S,
    ages,
    coming,
    going,
    is_on_gpu,
    num_certain,
    num_copies,
    num_reused,
    num_tokens,
)
from kvxray_backend.residency.taints import (
    SPOILS_ALL,
    SPOILS_CHAINS,
    SPOILS_COUNTS,
    SPOILS_EVENTS,
    figure,
    not_observable,
)

UNITS: Final[Mapping[str, Unit]] = {
    "cached_blocks": "blocks",
    "cached_elsewhere_blocks": "blocks",
    "cached_tokens": "tokens",
    "maybe_blocks": "blocks",
    "capacity_blocks": "blocks",
    "cached_share": "ratio",
    "stores_per_s": "per_second",
    "evictions_per_s": "per_second",
    "reuses_per_s": "per_second",
    "eviction_regret": "ratio",
    "lifetime_p50_s": "seconds",
    "age_p50_s": "seconds",
    "idle_p50_s": "seconds",
    "chains": "references",
    "longest_chain": "blocks",
}
OF_CHAINS: Final = ("chains", "longest_chain")
FROM_METRICS: Final[Mapping[str, str]] = {
    "usage": "used",
    "hit_rate": "hit_rate",
    "running": "running",
    "waiting": "waiting",
    "preemptions_per_s": "preemptions_per_s",
    "ttft_p50_s": "ttft_p50_s",
}
"""Figures of the page by the name that the overview has for them."""


_UNTOLD: Final = {name: Figure(value=None, unit=unit, certainty="not_observable") for name, unit in UNITS.items()}


def residency_figures(
    moment: ForeignMoment, signals: Mapping[str, Figure], *, with_chains: bool = True
) -> dict[str, Figure]:
    """signals: what metrics tell, by the names of the overview. with_chains: theirs cost more than all others; without
    they are left out, since they can be known.
    """
    figures = {name: figure for name, figure in _UNTOLD.items() if with_chains or name not in OF_CHAINS}
    if moment.picture is not None:
        columns = moment.picture.columns
        figures |= _of_cached(moment, columns) | _of_window(moment, columns)
        figures |= _of_times(moment, columns)
        figures |= _of_chains(moment, moment.picture.order) if with_chains else {}
    if moment.capacity is not None:
        figures["capacity_blocks"] = Figure(value=moment.capacity, unit="blocks", certainty=_of_capacity(moment))
    for name, told in FROM_METRICS.items():
        figures[name] = signals.get(told) or _untold(name)
    return figures


def _untold(name: str) -> Figure:
    unit: Unit = "requests" if name in ("running", "waiting") else "ratio"
    if name.endswith("_s"):
        unit = "per_second" if name.endswith("per_s") else "seconds"
    return Figure(value=None, unit=unit, certainty="not_observable")


def _of_capacity(moment: ForeignMoment) -> Certainty:
    """An engine keeps its number of blocks for its life; in an earlier one it may have had another."""
    return "exact" if moment.is_capacity_of_then else "derived"


def since_of(moment: ForeignMoment) -> str | None:
    """From which event on it is known: the first of the epoch, where it was heard from the first on."""
    whole = moment.columns is not None and moment.columns.is_whole
    return f"{moment.epoch}.0" if whole and moment.epoch is not None else None


def _counted(moment: ForeignMoment, value: float | None, unit: Unit, certainty: Certainty = "exact") -> Figure:
    """Of what is cached: derived where not everything was told, whether or not a finding is left that says so."""
    assert moment.columns is not None, "something is known"
    sure: Certainty = certainty if moment.columns.is_whole else "derived"
    return figure(value, unit, moment.findings, SPOILS_COUNTS, sure, since_of(moment))


def _of_cached(moment: ForeignMoment, columns: ResidencyColumns) -> dict[str, Figure]:
    gpu = is_on_gpu(columns)
    copies, certain = num_copies(columns, gpu), num_certain(columns, gpu)
    # What is there twice by one reading, and once by the other, is no exact count.
    sure: Certainty = "exact" if copies == certain or columns.counts_copies else "derived"
    tokens = num_tokens(columns, gpu)
    share = copies / moment.capacity if moment.capacity else None
    return {
        "cached_blocks": _counted(moment, copies, "blocks", sure),
        "cached_elsewhere_blocks": _counted(moment, num_copies(columns, ~gpu), "blocks"),
        "cached_tokens": _counted(moment, tokens, "tokens", sure),
        "maybe_blocks": _counted(moment, copies - certain, "blocks"),
        "cached_share": not_observable("ratio")
        if share is None
        else _counted(moment, share, "ratio", sure if moment.is_capacity_of_then else "derived"),
    }


def _of_window(moment: ForeignMoment, columns: ResidencyColumns) -> dict[str, Figure]:
    gpu, window_ns = is_on_gpu(columns), int(RATE_WINDOW_S * 1e9)
    gone = going(columns, gpu, moment.now_ns, RATE_WINDOW_S)
    lately = going(columns, gpu, moment.now_ns, LIFETIME_WINDOW_S)
    # A window that began before anything was heard is shorter.
    first_ns = int(columns.t_first[columns.stores > 0].min(initial=moment.now_ns))
    seconds = max(min(window_ns, moment.now_ns - first_ns), int(1e9)) / 1e9

    def event(value: float | None, unit: Unit, is_low: bool) -> Figure:
        return figure(value, unit, moment.findings, SPOILS_EVENTS, "derived" if is_low else "exact", since_of(moment))

    came = coming(columns, gpu, moment.now_ns, RATE_WINDOW_S)
    figures = {
        "stores_per_s": event(came.stored / seconds, "per_second", came.is_low),
        "evictions_per_s": event(gone.evicted / seconds, "per_second", gone.is_low),
        "lifetime_p50_s": event(lately.lifetime_p50_s, "seconds", lately.is_low),
    }
    if moment.lately is not None:
        figures["eviction_regret"] = event(_regret(moment, moment.lately), "ratio", False)
    if np.any(columns.reuses):
        figures["reuses_per_s"] = event(num_reused(columns, gpu, moment.now_ns) / seconds, "per_second", True)
    return figures


def _regret(moment: ForeignMoment, lately: Lately) -> float | None:
    """Hashes that came back, for each that was evicted: what was computed again for nothing. None: none was evicted."""
    assert moment.columns is not None, "something is known"
    is_over = moment.now_ns - moment.columns.t_ns > RATE_WINDOW_S * 1e9
    return None if is_over or not lately.evicted else lately.returned / lately.evicted


def _of_times(moment: ForeignMoment, columns: ResidencyColumns) -> dict[str, Figure]:
    told = ages(columns, is_on_gpu(columns), moment.now_ns)
    # Hits are told by few engines, so that nothing told of a block does not mean that nobody used it.
    idle = figure(told.idle_p50_s, "seconds", moment.findings, SPOILS_ALL, "derived", since_of(moment))
    return {
        "age_p50_s": _counted(moment, told.age_p50_s, "seconds", "derived" if told.is_sample else "exact"),
        "idle_p50_s": idle,
    }


def _of_chains(moment: ForeignMoment, chains: ChainOrder) -> dict[str, Figure]:
    def chain(value: int | None, unit: Unit) -> Figure:
        assert moment.columns is not None, "it has chains"
        sure: Certainty = "exact" if moment.columns.is_whole and not chains.num_broken else "derived"
        return figure(value, unit, moment.findings, SPOILS_CHAINS, sure, since_of(moment))

    return {
        "chains": chain(chains.num_trees, "references"),
        "longest_chain": chain(chains.longest, "blocks"),
    }
