"""The figures of the overview, of one source at one moment: those of its summary, what the fold knows beyond them, and
what the rollups tell of the time before. What a source does not tell has no value and says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.schema import BlockState, RequestStatus
from numpy.typing import NDArray

from kvxray_backend.analysis.leaks import Leak
from kvxray_backend.engine_clock import SET_BACK_NS, age_s
from kvxray_backend.figure import Figure, Unit
from kvxray_backend.figures import Reading, figures_of, first_tokens
from kvxray_backend.life_figures import LIFE_UNITS, life_figures
from kvxray_backend.overview_windows import Before
from kvxray_backend.windows import HIT_WINDOW_NS

_UNITS: Final[dict[str, Unit]] = {
    "preemptions_10m": "requests",
    "finished_10m": "requests",
    "first_tokens_5m": "requests",
    "first_tokens_hour": "requests",
    "waiting_low": "requests",
    "queried_30m": "tokens",
    "watched_s": "seconds",
}
"""Of what the rollups tell; the rest are seconds where their name ends so, else ratios."""

MAX_LOOKED_AT: Final = 1 << 16
"""Blocks that medians are made of."""

NOT_TOLD: Final = (
    "waiting_for_capacity", "waiting_deferred", "hit_rate_host", "hit_rate_external", "transfers", "kv_loads_waiting",
    "transfer_failures", "offload_bytes_per_s", "offload_p99_s", "offload_failures", "affinity_lost",
)  # fmt: skip
"""Figures that events of an engine with one pool do not tell: metrics of the engine, or of its router, do."""

_TOLD_BY_BLOCKS: Final[dict[str, Unit]] = {
    **dict.fromkeys(("used", "cached", "shared", "internal_fragmentation", "hit_rate"), "ratio"),
    **dict.fromkeys(("leaked", "leaked_only", "leaked_by_requests", "lost_to_requests", "unknown"), "blocks"),
    **dict.fromkeys(("evictions_per_s", "allocations_per_s", "preemptions_per_s", "tokens_per_s"), "per_second"),
    **dict.fromkeys(("running", "waiting", "waiting_new", "waiting_preempted"), "requests"),
    **dict.fromkeys(("leaking_holders", "expired_leases"), "requests"),
    **dict.fromkeys(("prompt_tokens_queried", "prompt_tokens_hit", "prompt_tokens_computed"), "tokens"),
    **dict.fromkeys(("ttft_p50_s", "ttft_p99_s", "queue_p50_s", "queue_p99_s", "prefill_p50_s"), "seconds"),
    **dict.fromkeys(("oldest_wait_s", "silent_s", "cached_age_p50_s", "cached_idle_p50_s"), "seconds"),
    **LIFE_UNITS,
}
"""Figures that events of blocks tell, beside those of the rollups, with their units."""


@cache
def not_told() -> Mapping[str, Figure]:
    """Every figure of the overview, of a source that tells none of them."""
    of_rollups = (*Before.__dataclass_fields__, "preemptions_per_finished")
    units = {name: _unit(name) for name in (*of_rollups, *NOT_TOLD)} | _TOLD_BY_BLOCKS
    return MappingProxyType(
        {name: Figure(value=None, unit=unit, certainty="not_observable") for name, unit in units.items()}
    )


def overview_figures(reading: Reading, leaks: Sequence[Leak], before: Before) -> dict[str, Figure]:
    """Call with the state's lock held."""
    figures = {**figures_of(reading), **_of_rollups(reading, before), **_of_pool(reading), **_of_requests(reading)}
    figures |= _of_prompts(reading) | _of_leaks(reading, leaks) | life_figures(reading)
    figures |= {name: Figure(value=None, unit=_unit(name), certainty="not_observable") for name in NOT_TOLD}
    return figures


def _unit(name: str) -> Unit:
    if name.endswith("per_s"):
        return "bytes" if "bytes" in name else "per_second"
    return _UNITS.get(name, "seconds" if name.endswith("_s") else "ratio")


def _of_rollups(reading: Reading, before: Before) -> dict[str, Figure]:
    """Derived: counted second by second, gauges a few times a second, durations by histogram."""
    told: dict[str, Any] = {name: getattr(before, name) for name in Before.__dataclass_fields__}
    finished, preemptions = before.finished_10m, before.preemptions_10m
    told["preemptions_per_finished"] = preemptions / finished if finished and preemptions is not None else None
    kinds = frozenset({"gap", "no_snapshot", "stale", "storage"})
    return {name: reading.figure(value, _unit(name), kinds, "derived") for name, value in told.items()}


def _of_pool(reading: Reading) -> dict[str, Figure]:
    """How old what is cached is, and how long nobody has used it: medians over the blocks as they are now. Of a large
    pool only every n-th block is looked at, since the source's thread waits meanwhile.
    """
    block_map = reading.block_map
    unknown = block_map.counts()[BlockState.unknown]
    figures = {"unknown": reading.figure(unknown, "blocks", frozenset({"stale"}), "exact")}
    every = -(-block_map.num_blocks // MAX_LOOKED_AT)
    cached = block_map.state[::every] == BlockState.cached
    for name, column in (("cached_age_p50_s", block_map.t_alloc), ("cached_idle_p50_s", block_map.t_last)):
        since = column[::every][cached]
        since = since[(since > 0) & (since <= reading.now_ns + SET_BACK_NS)]
        value = max(reading.now_ns - float(np.median(since)), 0.0) / 1e9 if len(since) else None
        figure = reading.of_blocks(value, "seconds")
        figures[name] = figure if every == 1 else figure.model_copy(update={"certainty": "derived"})
    return figures


def _of_prompts(reading: Reading) -> dict[str, Figure]:
    """Where the tokens of prompts came from, over the window of the hit rate."""
    looked_up = reading.windows.since(HIT_WINDOW_NS, reading.now_ns)
    queried, hit = (looked_up[0].queried, looked_up[0].hit) if looked_up else (None, None)
    computed = queried - hit if queried is not None and hit is not None else None
    told = {"prompt_tokens_queried": queried, "prompt_tokens_hit": hit, "prompt_tokens_computed": computed}
    return {name: reading.of_events(value, "tokens") for name, value in told.items()}


def _of_requests(reading: Reading) -> dict[str, Figure]:
    """The parts of the time to first token, of the first tokens of the last minute: from arrival to the batch, and from
    there on. Of those that were never preempted: else the last place in the batch is told, not the first.
    """
    rows, now_ns = reading.block_map.requests.rows, reading.now_ns
    recent = first_tokens(rows, now_ns)
    whole = (recent["first_token_ns"] - recent["arrived_ns"]) / 1e9
    parts = recent[(recent["preemptions"] == 0) & (recent["scheduled_ns"] > 0)]
    queued = (parts["scheduled_ns"] - parts["arrived_ns"]).clip(min=0) / 1e9
    prefill = (parts["first_token_ns"] - parts["scheduled_ns"]).clip(min=0) / 1e9
    return {
        "ttft_p99_s": reading.of_events(_quantile(whole, 0.99), "seconds"),
        "queue_p50_s": reading.of_events(_quantile(queued, 0.5), "seconds"),
        "queue_p99_s": reading.of_events(_quantile(queued, 0.99), "seconds"),
        "prefill_p50_s": reading.of_events(_quantile(prefill, 0.5), "seconds"),
        **_of_waiting(reading, rows),
    }


def _of_waiting(reading: Reading, rows: NDArray[np.void]) -> dict[str, Figure]:
    waiting = rows[rows["status"] == RequestStatus.waiting]
    arrived = waiting["arrived_ns"][waiting["arrived_ns"] > 0]
    # Where one of them came before the clock was set back, none is known to be the oldest.
    is_known = len(arrived) and age_s(reading.now_ns, int(arrived.max())) is not None
    oldest = age_s(reading.now_ns, int(arrived.min())) if is_known else None
    return {
        "waiting_new": reading.of_requests(len(waiting)),
        "waiting_preempted": reading.of_requests(reading.block_map.requests.count(RequestStatus.preempted)),
        "oldest_wait_s": reading.of_events(oldest, "seconds"),
        "silent_s": reading.of_events(_silent_s(reading.block_map, reading.now_ns), "seconds"),
    }


def _of_leaks(reading: Reading, leaks: Sequence[Leak]) -> dict[str, Figure]:
    """Blocks kept by requests that ended, and leases past their deadline, apart: the one is a fault of the engine, the
    other of a transfer.
    """
    kept = [leak for leak in leaks if leak.why != "expired"]
    expired = sum(leak.why == "expired" for leak in leaks)
    return {
        "leaked_by_requests": reading.of_holders(_distinct([leak.blocks for leak in kept]), "blocks"),
        "lost_to_requests": reading.of_holders(_distinct([leak.blocks_only for leak in kept]), "blocks"),
        "leaking_holders": reading.of_holders(len(leaks), "requests"),
        "expired_leases": reading.of_holders(expired, "requests"),
    }


def _distinct(blocks: list[NDArray[np.uint32]]) -> int:
    return len(np.unique(np.concatenate(blocks))) if blocks else 0


def _silent_s(block_map: BlockMap, now_ns: int) -> float | None:
    """Since its last event the engine was heard, and had nothing to tell."""
    return max(now_ns - block_map.t_ns, 0) / 1e9 if block_map.t_ns else None


def _quantile(values: NDArray[np.float64], share: float) -> float | None:
    """The smallest of the values that this share of them does not exceed; of a median of two, their middle."""
    if not len(values):
        return None
    return float(np.median(values)) if share == 0.5 else float(np.quantile(values, share, method="higher"))
