"""The figures of what the cache throws away and finds again, over the last minute of the events: how long blocks lay
there when they were evicted, how soon one is used again, what came back, why prompts missed, what was computed twice.

Exact, since every event counts; derived where more happened than is remembered, or where it was followed too late.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from kvxray_engine.stream.columns import I8

from kvxray_backend.analysis.block_lives import BESIDE, DROPPED, NEVER, UNKNOWN_NS, BlockLives
from kvxray_backend.analysis.recent import Recent
from kvxray_backend.figure import Certainty, Figure, Unit
from kvxray_backend.figures import Reading

LIFE_UNITS: Final[Mapping[str, Unit]] = {
    "eviction_regret": "ratio",
    **dict.fromkeys(("blocks_evicted", "blocks_reused"), "blocks"),
    **dict.fromkeys(("lifetime_p50_s", "lifetime_p90_s", "evicted_idle_p50_s", "evicted_idle_p90_s"), "seconds"),
    **dict.fromkeys(("reuse_gap_p50_s", "reuse_gap_p90_s", "missed_evicted_ago_p50_s"), "seconds"),
    **dict.fromkeys(("missed_cold", "missed_evicted", "missed_dropped", "missed_beside", "missed_tail"), "tokens"),
    "tokens_recomputed": "tokens",
}
OF_EARLIER: Final = ("missed_cold", "missed_evicted", "missed_dropped", "missed_evicted_ago_p50_s")
"""What is told only where it is known what was cached before: of a past moment no more than minutes are read."""


def life_figures(reading: Reading) -> dict[str, Figure]:
    """Works out what is not worked out yet."""
    lives = reading.lives
    if lives is None:
        return {name: _not_observable(name) for name in LIFE_UNITS}
    lives.settle()
    return _of_evictions(reading, lives) | _of_misses(reading, lives) | _of_regret(reading, lives)


def _not_observable(name: str) -> Figure:
    return Figure(value=None, unit=LIFE_UNITS[name], certainty="not_observable")


def _of_evictions(reading: Reading, lives: BlockLives) -> dict[str, Figure]:
    now_ns = reading.now_ns
    _, life, idle = lives.evicted.since(now_ns)
    _, gap = lives.reused.since(now_ns)
    whole, again = lives.evicted.is_whole(now_ns), lives.reused.is_whole(now_ns)
    figures = {
        "blocks_evicted": _counted(reading, len(life), "blocks", is_exact=whole),
        "blocks_reused": _counted(reading, len(gap), "blocks", is_exact=again),
    }
    for name, values, is_whole in (
        ("lifetime", life, whole),
        ("evicted_idle", idle, whole),
        ("reuse_gap", gap, again),
    ):
        known = values[values != UNKNOWN_NS] / 1e9
        for percent, quantile in ((50, float(np.median(known)) if len(known) else None), (90, _high(known, 0.9))):
            is_exact = is_whole and len(known) == len(values)
            figures[f"{name}_p{percent}_s"] = _counted(reading, quantile, "seconds", is_exact=is_exact)
    return figures


def _of_regret(reading: Reading, lives: BlockLives) -> dict[str, Figure]:
    """Hashes that came back within a minute, for each that was evicted: computed again for nothing."""
    now_ns = reading.now_ns
    gone, returned = lives.gone, lives.returned
    num_gone, num_back = gone.since(now_ns).shape[1], returned.since(now_ns).shape[1]
    is_exact = gone.is_whole(now_ns) and returned.is_whole(now_ns) and lives.knows_evictions(now_ns)
    regret = num_back / num_gone if num_gone else None
    again = lives.recomputed.recent
    return {
        "eviction_regret": _counted(reading, regret, "ratio", is_exact=is_exact),
        "tokens_recomputed": _counted(reading, _sum(again, now_ns), "tokens", is_exact=again.is_whole(now_ns)),
    }


def _of_misses(reading: Reading, lives: BlockLives) -> dict[str, Figure]:
    """Tokens of prompts that were computed since no block had them. No value where no prompt was looked up: then
    nothing missed.
    """
    now_ns = reading.now_ns
    _, why = lives.missed.since(now_ns)
    tails = lives.tails.since(now_ns)
    is_whole = lives.missed.is_whole(now_ns)
    any_prompt = bool(tails.shape[1])

    def tokens(of: I8) -> int | None:
        return int(np.count_nonzero(of)) * lives.block_size if any_prompt or len(why) else None

    ago = why[why >= 0] / 1e9
    knows_all = is_whole and lives.knows_all()
    figures = {
        "missed_cold": _counted(reading, tokens(why == NEVER), "tokens", is_exact=knows_all),
        "missed_evicted": _counted(reading, tokens(why >= 0), "tokens", is_exact=knows_all),
        "missed_dropped": _counted(reading, tokens(why == DROPPED), "tokens", is_exact=knows_all),
        "missed_beside": _counted(reading, tokens(why == BESIDE), "tokens", is_exact=is_whole),
        "missed_tail": _counted(reading, _sum(lives.tails, now_ns), "tokens", is_exact=lives.tails.is_whole(now_ns)),
        "missed_evicted_ago_p50_s": _counted(
            reading, float(np.median(ago)) if len(ago) else None, "seconds", is_exact=knows_all
        ),
    }
    if lives.is_of_past and not lives.is_whole:
        figures |= {name: _not_observable(name) for name in OF_EARLIER}
    return figures


def _counted(reading: Reading, value: float | int | None, unit: Unit, *, is_exact: bool) -> Figure:
    certainty: Certainty = "exact" if is_exact else "derived"
    return reading.of_events(value, unit, certainty)


def _sum(recent: Recent, now_ns: int) -> int | None:
    """None where there was nothing to add up."""
    told = recent.since(now_ns)
    return int(told[1].sum()) if told.shape[1] else None


def _high(values: I8, share: float) -> float | None:
    """The smallest of the values that this share of them does not exceed."""
    return float(np.quantile(values, share, method="higher")) if len(values) else None
