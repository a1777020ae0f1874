"""What the page says about the figures of an engine that is watched from outside, and about being one."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from kvxray_app.components.fleet import MAKES


@dataclass(frozen=True, slots=True)
class TileWords:
    """How one figure is presented. key: its name in `/api/residency`; no_data: why it may have no value although the
    engine tells of it. second: a figure shown small below it, with what is said after and before its value.
    """

    key: str
    label: str
    meaning: str
    no_data: str
    second: str | None = None
    after: str = ""
    before: str = ""


TILES: tuple[TileWords, ...] = (
    TileWords(
        "cached_blocks",
        "Cached blocks",
        "Blocks that hold a prefix a later prompt can reuse, counted in copies, on the GPU.",
        "Nothing was heard yet.",
        second="maybe_blocks",
        after="of them maybe",
    ),
    TileWords(
        "cached_tokens",
        "Cached tokens",
        "Tokens that these blocks hold.",
        "Nothing was heard yet.",
        second="cached_elsewhere_blocks",
        after="on other tiers",
    ),
    TileWords(
        "usage",
        "Cache in use",
        "Blocks that running requests hold, of all, as its metrics say. Cached blocks that nobody holds do not count.",
        "The metrics did not tell it yet.",
        second="capacity_blocks",
        before="of ",
        after="blocks",
    ),
    TileWords(
        "hit_rate",
        "Prefix hit rate",
        "Prompt tokens found in the cache, of those looked up, as the engine's metrics say.",
        "No prompt was looked up lately.",
        second="reuses_per_s",
        after="reuses told a second",
    ),
    TileWords(
        "stores_per_s",
        "Stored",
        "Blocks that came into the cache, each second, over the last minute.",
        "Nothing was heard yet.",
    ),
    TileWords(
        "evictions_per_s",
        "Evictions",
        "Blocks that were evicted, each second, over the last minute. Below: how many came back, which were computed "
        "twice, for those that went; shown of the present only.",
        "Nothing was heard yet.",
        second="eviction_regret",
        after="as many came back",
    ),
    TileWords(
        "lifetime_p50_s",
        "Lifetime, median",
        "How long blocks that left lately had been in the cache.",
        "No block left the cache lately.",
        second="age_p50_s",
        before="what is here is ",
        after="old",
    ),
    TileWords(
        "idle_p50_s",
        "Idle, median",
        "How long ago an event last named what is cached. An engine that tells of no hits looks idler than it is.",
        "Nothing is cached.",
    ),
    TileWords(
        "chains",
        "Prefix trees",
        "Trees of prefixes: prompts that begin alike share one.",
        "Nothing is cached.",
        second="longest_chain",
        after="blocks in the longest chain",
    ),
    TileWords(
        "running",
        "Running",
        "Requests that are computed now, as the engine's metrics say.",
        "The metrics did not tell it yet.",
        second="waiting",
        after="waiting",
    ),
)

STATES: dict[str, str] = {
    "waiting": "Waiting for its first event",
    "joining": "Joining",
    "connected": "Live",
    "stale": "Stale",
    "no_stream": "Metrics only",
    "past": "Past",
}

HEALTH: dict[str, str] = {
    "gaps": "Gaps: stretches of batches that were missed at first, those that the engine's replay made good included.",
    "late": "Late: batches that came after newer ones.",
    "bad": "Bad messages: batches with something that could not be read. They are counted and skipped.",
}

HOW_TO_ATTACH_EVENTS = (
    "This engine is known by its metrics only. Attach its event stream too, and this page shows which prefixes are "
    "cached, where, since when, and what is evicted."
)


def residency_words() -> dict[str, Any]:
    """All of it as the component takes it."""
    return {
        "tiles": [asdict(tile) for tile in TILES],
        "states": STATES,
        "health": HEALTH,
        "makes": MAKES,
        "attach": HOW_TO_ATTACH_EVENTS,
    }
