"""Figures that are one signal divided by another, over the same time: hit rates, bandwidths, shares.

Of a histogram, the sum of its values counts. A divisor that did not grow is no data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isnan
from typing import Final

from kvxray_backend.figure import Unit
from kvxray_backend.metrics.minute import Counted, Spread, Stretch


@dataclass(frozen=True, slots=True)
class RatioOf:
    """`above` / `below`, of signals; `missing`: what is left of 1 is meant."""

    name: str
    unit: Unit
    meaning: str
    above: str
    below: str
    missing: bool = False


def _by_topic() -> Mapping[str, tuple[RatioOf, ...]]:
    return {
        "Reuse of prefixes": (
            RatioOf(
                "hit_rate",
                "ratio",
                "Prompt tokens found in the cache, of those looked up.",
                "prefix_hits",
                "prefix_queries",
            ),
            RatioOf(
                "hit_rate_external",
                "ratio",
                "Tokens found beyond the device, of those looked up there.",
                "external_prefix_hits",
                "external_prefix_queries",
            ),
            RatioOf(
                "hit_rate_multimodal",
                "ratio",
                "Images and the like found in the multimodal cache, of those looked up.",
                "multimodal_hits",
                "multimodal_queries",
            ),
        ),
        "Queue and requests": (
            RatioOf(
                "preemptions_per_finished",
                "ratio",
                "Preemptions for each request that ended.",
                "preemptions",
                "requests_finished",
            ),
        ),
        "Offload and tiers": (
            RatioOf(
                "offload_load_bandwidth",
                "bytes",
                "Bytes brought back to the device, a second that it took.",
                "offload_load_bytes",
                "offload_load_time",
            ),
            RatioOf(
                "offload_store_bandwidth",
                "bytes",
                "Bytes offloaded, a second that it took.",
                "offload_store_bytes",
                "offload_store_time",
            ),
            RatioOf(
                "hit_rate_tiers",
                "ratio",
                "Chunks found in a further tier, of those looked up there.",
                "tier_hits",
                "tier_queries",
            ),
        ),
        "Transfers between engines": (
            RatioOf(
                "transfer_bandwidth",
                "bytes",
                "Bytes of transfers, a second that they took.",
                "transfer_bytes",
                "transfer_time",
            ),
        ),
        "LMCache": (
            RatioOf(
                "lmcache_hit_rate",
                "ratio",
                "Tokens that LMCache had, of those it was asked for.",
                "lmcache_hit_tokens",
                "lmcache_requested_tokens",
            ),
        ),
        "Router": (
            RatioOf(
                "router_error_rate", "ratio", "Requests that ended in an error.", "router_errors", "router_requests"
            ),
            RatioOf(
                "predicted_hit_rate",
                "ratio",
                "Prompt tokens that the router took for cached where it sent them.",
                "router_predicted_tokens",
                "router_prompt_tokens",
            ),
            RatioOf(
                "told_hit_rate",
                "ratio",
                "Prompt tokens that engines told it came from a cache.",
                "router_cached_tokens",
                "router_input_tokens",
            ),
            RatioOf(
                "affinity_lost",
                "ratio",
                "Of the tokens cached at the best engine, those that were not where the request was sent.",
                "router_predicted_tokens",
                "router_best_tokens",
                missing=True,
            ),
        ),
        "Index of the router": (
            RatioOf(
                "matched_blocks_per_lookup",
                "blocks",
                "Blocks known to be cached, for each look-up.",
                "index_hits",
                "index_lookups",
            ),
        ),
    }


RATIO_TOPICS: Final = _by_topic()
RATIOS: Final[Mapping[str, RatioOf]] = {one.name: one for topic in RATIO_TOPICS.values() for one in topic}


def signals_of(names: Iterable[str]) -> set[str]:
    """What these signals and ratios are made of."""
    return {part for name in names for part in _parts_of(name)}


def _parts_of(name: str) -> tuple[str, ...]:
    found = RATIOS.get(name)
    return (name,) if found is None else (found.above, found.below)


def ratio(found: RatioOf, stretch: Stretch) -> float | None:
    """None: no data."""
    above, below = _amount(stretch, found.above), _amount(stretch, found.below)
    if above is None or below is None or below <= 0:
        return None
    return 1 - above / below if found.missing else above / below


def _amount(stretch: Stretch, signal: str) -> float | None:
    whole = stretch.whole(signal)
    amount = whole.amount if isinstance(whole, Counted) else whole.total if isinstance(whole, Spread) else None
    return None if amount is None or isnan(amount) else amount
