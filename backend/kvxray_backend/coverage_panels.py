"""Every panel of the product, and what it needs to be told. Only a table; `coverage.py` reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from kvxray_backend.residency import taints as spoils

Needs = Literal["blocks", "hashes", "metrics"]


@dataclass(frozen=True, slots=True)
class Panel:
    """`needs`: events of blocks, events of hashes, or metrics (of an engine of blocks: events). `signals`: any one of
    these will do. `is_of_blocks`: an engine that tells of blocks tells it by its events. `what`: what is not told, in
    a sentence that begins with the name of the engine.
    """

    key: str
    label: str
    needs: Needs
    what: str
    signals: tuple[str, ...] = ()
    spoils: frozenset[str] = spoils.SPOILS_CACHED
    is_of_blocks: bool = True


PANELS: Final[tuple[Panel, ...]] = (
    Panel("block_map", "Block map", "blocks", "which block holds what"),
    Panel("ref_counts", "Reference counts", "blocks", "how many requests hold a block"),
    Panel("holders", "Holders", "blocks", "which requests hold a block"),
    Panel("leaks", "Leaks", "blocks", "who holds blocks, so that one held for nobody is like one in use"),
    Panel("internal_fragmentation", "Internal fragmentation", "blocks", "how many slots of a block are written"),
    Panel("requests", "Requests", "blocks", "single requests"),
    Panel("cached_set", "Cached blocks by hash", "hashes", "which hashes are cached"),
    Panel("chains", "Prefix chains", "hashes", "which block follows which", spoils=spoils.SPOILS_CHAINS),
    Panel("tiers", "Tiers", "hashes", "on which medium a block lies"),
    Panel("lifetimes", "Lifetimes", "hashes", "how long blocks stay", ("block_lifetime",), spoils.SPOILS_EVENTS),
    Panel("evictions", "Evictions", "hashes", "what is evicted", ("evicted_tokens",), spoils.SPOILS_EVENTS),
    Panel("churn", "Churn", "hashes", "what is stored and evicted", (), spoils.SPOILS_EVENTS),
    Panel("reuse", "Reuse of blocks", "hashes", "hits on single blocks", ("block_reuse_gap",), spoils.SPOILS_EVENTS),
    Panel("used", "Cache in use", "metrics", "how many blocks requests hold", ("kv_usage",), spoils.SPOILS_METRICS),
    Panel(
        "capacity", "Capacity", "metrics", "how many blocks it has", ("kv_capacity_blocks", "kv_capacity_tokens"),
        spoils.SPOILS_METRICS,
    ),
    Panel(
        "hit_rate", "Hit rate", "metrics", "how many tokens of prompts were found",
        ("prefix_queries", "reused_blocks", "hit_rate_gauge"), spoils.SPOILS_HIT_RATE,
    ),
    Panel(
        "hit_rate_tiers", "Hit rate of host and store", "metrics", "what was found beyond the GPU",
        ("external_prefix_queries", "cached_prompt_tokens_by_tier", "tier_queries", "kvbm_host_hit_rate"),
        spoils.SPOILS_METRICS, is_of_blocks=False,
    ),
    Panel(
        "prompt_tokens", "Prompt tokens by source", "metrics", "where tokens of prompts came from",
        ("prompt_tokens_by_source", "cached_prompt_tokens", "prompt_tokens"), spoils.SPOILS_METRICS,
    ),
    Panel(
        "preemptions", "Preemptions", "metrics", "which requests it pushed out", ("preemptions", "requests_retracted"),
        spoils.SPOILS_METRICS,
    ),
    Panel("ttft", "Time to first token", "metrics", "how long first tokens take", ("ttft",), spoils.SPOILS_METRICS),
    Panel(
        "latency", "Latency between tokens", "metrics", "how long tokens take",
        ("inter_token_latency", "time_per_output_token"), spoils.SPOILS_METRICS,
    ),
    Panel(
        "queue", "Running and waiting", "metrics", "how many requests run and wait",
        ("requests_running", "requests_waiting"), spoils.SPOILS_METRICS,
    ),
    Panel(
        "waiting_reasons", "Why requests wait", "metrics", "why requests wait", ("requests_waiting_by_reason",),
        spoils.SPOILS_METRICS, is_of_blocks=False,
    ),
    Panel(
        "transfers", "Transfers", "metrics", "transfers between engines",
        ("transfer_time", "transfer_bytes", "transfer_failures", "kv_fetch_by_stage"), spoils.SPOILS_METRICS,
        is_of_blocks=False,
    ),
    Panel(
        "offload", "Offload", "metrics", "what moves to and from the host",
        ("offload_load_bytes", "offload_store_bytes", "host_used_tokens", "simple_offload_used_blocks",
         "kvbm_offload_blocks", "kv_usage_host"), spoils.SPOILS_METRICS, is_of_blocks=False,
    ),
)  # fmt: skip
"""In the order in which pages show them."""

NEEDED_SIGNALS: Final = frozenset(signal for panel in PANELS for signal in panel.signals)
