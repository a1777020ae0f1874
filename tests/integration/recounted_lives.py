"""What the overview tells of blocks evicted and used again, of misses and of tokens computed twice, recounted from the
events of a whole life.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from statistics import median
from typing import Final

from kvxray_engine.stream.schema import Cause, Kind

from tests.backend.lives_recount import LivesRecount
from tests.integration.recount import HIT_S, Event, ms_of
from tests.integration.recounted import Number
from tests.integration.watched_life import BLOCK_SIZE, MS, Life, Moment, seq_of

MINUTE_NS: Final = HIT_S * 1000 * MS


class Lately:
    """The last minute of a life up to a moment."""

    def __init__(self, truth: LivesRecount, now_ns: int) -> None:
        since = now_ns - MINUTE_NS
        self.evicted = [one for one in truth.evicted if one[0] > since]
        self.reused = [gap for t, gap in truth.reused if t > since]
        self.num_gone = sum(t > since for t in truth.gone)
        self.num_returned = sum(t > since for t, _ in truth.returned)
        self.missed = [why for t, why in truth.missed if t > since]
        self.tails = [tokens for t, tokens in truth.tails if t > since]
        self.recomputed = [tokens for t, tokens in truth.recomputed if t > since]
        self.ago = [why for why in self.missed if isinstance(why, int)]

    def tokens_missed(self, why: str) -> int:
        return BLOCK_SIZE * sum(one == why for one in self.missed)


OF_LIVES: Final[dict[str, Callable[[Lately], Number]]] = {
    "blocks_evicted": lambda told: len(told.evicted),
    "blocks_reused": lambda told: len(told.reused),
    "lifetime_p50_s": lambda told: middle([life for _, life, _ in told.evicted]),
    "lifetime_p90_s": lambda told: ninth(life for _, life, _ in told.evicted),
    "evicted_idle_p50_s": lambda told: middle([idle for _, _, idle in told.evicted]),
    "evicted_idle_p90_s": lambda told: ninth(idle for _, _, idle in told.evicted),
    "reuse_gap_p50_s": lambda told: middle(told.reused),
    "reuse_gap_p90_s": lambda told: ninth(told.reused),
    "eviction_regret": lambda told: told.num_returned / told.num_gone if told.num_gone else None,
    "tokens_recomputed": lambda told: sum(told.recomputed) if told.recomputed else None,
    "missed_cold": lambda told: told.tokens_missed("never"),
    "missed_evicted": lambda told: BLOCK_SIZE * len(told.ago),
    "missed_dropped": lambda told: told.tokens_missed("dropped"),
    "missed_beside": lambda told: told.tokens_missed("beside"),
    "missed_tail": lambda told: sum(told.tails) if told.tails else None,
    "missed_evicted_ago_p50_s": lambda told: middle(told.ago),
}


def lately(life: Life, moment: Moment) -> Lately:
    return _lately(_Whole(life), moment.truth.events[-1]["seq"], moment.truth.now_ms * MS)


class _Whole:
    """A life by which a recount is remembered."""

    def __init__(self, life: Life) -> None:
        self.life = life

    def __hash__(self) -> int:
        return id(self.life)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Whole) and other.life is self.life


@cache
def _lately(whole: _Whole, last: str, now_ns: int) -> Lately:
    truth = LivesRecount(BLOCK_SIZE, hashes=dict(enumerate(whole.life.hashes)))
    num_cached = 0
    for event in whole.life.events:
        if seq_of(event["seq"]) > seq_of(last):
            break
        happen(truth, event, num_cached)
        num_cached += event["kind"] == "BlockCached"
    return Lately(truth, now_ns)


def happen(truth: LivesRecount, event: Event, ordinal: int) -> None:
    kind, cause, request, t = Kind[event["kind"]], Cause[event["cause"]], event["request_id"], ms_of(event["time"]) * MS
    if event["block_id"] is None:
        truth.operation(kind, request, event["a0"], event["a1"], t)
    else:
        truth.row(kind, cause, request, event["block_id"], event["a0"], ordinal, event["value"], t)


def middle(values: list[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) / 1e9 if known else None


def ninth(values: object) -> float | None:
    """The smallest that nine in ten do not exceed."""
    ordered = sorted(value for value in values if value is not None)  # type: ignore[attr-defined]
    rank = 0.9 * (len(ordered) - 1)
    return ordered[int(rank) + (rank > int(rank))] / 1e9 if ordered else None
