"""What the figures of the overview mean, by the panels that it has them in. One that is not here tells its name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

OTHER: Final = "Other figures"

FIGURE_WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "Cache in use": {
        "used": "Blocks that requests hold, of all usable ones.",
        "used_mean_5m": "The same, mean of 5 minutes.",
        "used_max_5m": "The same, the highest of 5 minutes.",
        "used_low": "The same, the lowest of a minute.",
        "used_high": "The same, the highest of a minute.",
        "used_host": "How full the cache in the host's memory is.",
        "cached": "Blocks that are only cached, of all usable ones.",
        "shared": "Blocks that several requests hold, of all usable ones.",
        "internal_fragmentation": "Slots not written, of those in blocks that requests hold.",
        "unknown": "Blocks of which nothing is known.",
        "cached_blocks": "Copies of blocks that are cached on the GPU, those in use included.",
        "cached_elsewhere_blocks": "Copies of blocks that are cached elsewhere.",
        "cached_tokens": "Tokens of what is cached on the GPU.",
        "cached_share": "What is cached on the GPU, of all its blocks.",
        "maybe_blocks": "Copies that are perhaps cached on the GPU: repeated stores tell.",
        "capacity_blocks": "Blocks of the GPU's cache.",
    },
    "Latency": {
        "ttft_p50_s": "From arrival to the first token: the median.",
        "ttft_p99_s": "From arrival to the first token: the slowest in a hundred.",
        "ttft_5m_s": "From arrival to the first token, 5 minutes: the median.",
        "ttft_hour_s": "From arrival to the first token, in the hour before: the median.",
        "first_tokens_5m": "First tokens of 5 minutes.",
        "first_tokens_hour": "First tokens of the hour before.",
        "queue_p50_s": "From arrival to a place in the batch: the median.",
        "queue_p99_s": "From arrival to a place in the batch: the longest in a hundred.",
        "prefill_p50_s": "From a place in the batch to the first token: the median.",
        "itl_p50_s": "Between two tokens: the median.",
        "itl_p99_s": "Between two tokens: the slowest in a hundred.",
    },
    "Scheduler queue": {
        "running": "Requests in the batch.",
        "waiting": "Requests that wait, those that were preempted included.",
        "waiting_new": "Requests that have not been in the batch yet.",
        "waiting_preempted": "Requests that were in the batch and must begin again.",
        "waiting_low": "Requests that wait: the fewest of a minute.",
        "waiting_for_capacity": "Requests that wait for blocks or places.",
        "waiting_deferred": "Requests that are held back on purpose.",
        "oldest_wait_s": "Since the arrival of the one that waits longest.",
        "silent_s": "Since the last event of an engine that is heard.",
    },
    "Prefix hit rate by tier": {
        "hit_rate": "Prompt tokens found in the prefix cache, of those looked up, over 60 seconds.",
        "hit_rate_30m": "The same over half an hour.",
        "hit_rate_before": "The same over half an hour, an hour ago.",
        "hit_rate_day": "The same over a day.",
        "hit_rate_host": "Found in the host's memory, of those looked up.",
        "hit_rate_external": "Found beyond the engine, of those looked up.",
        "queried_30m": "Prompt tokens looked up in half an hour.",
    },
    "Prompt tokens by source": {
        "prompt_tokens_queried": "Prompt tokens looked up in 60 seconds.",
        "prompt_tokens_hit": "Of these, found in the prefix cache.",
        "prompt_tokens_computed": "Of these, computed anew.",
        "tokens_per_s": "Tokens generated.",
    },
    "Preemptions": {
        "preemptions_10m": "Times that a request had to give up its blocks, in 10 minutes.",
        "finished_10m": "Requests that ended in 10 minutes.",
        "preemptions_per_finished": "Preemptions for each request that ended, over 10 minutes.",
        "preemptions_per_s": "Preemptions, lately.",
        "tokens_recomputed": "Tokens computed twice, since a preemption lost them, in 60 seconds.",
    },
    "Evictions and age": {
        "evictions_per_s": "Cached blocks given up.",
        "allocations_per_s": "Blocks given out.",
        "stores_per_s": "Blocks that came into the cache.",
        "reuses_per_s": "Blocks reported as used again.",
        "eviction_regret": "What was cached again within a minute of its eviction, for each that was evicted.",
        "blocks_evicted": "Blocks that were cached and given up for others, in 60 seconds.",
        "blocks_reused": "Cached blocks that nobody held and a prompt hit, in 60 seconds.",
        "lifetime_p50_s": "How long what was evicted had been cached: the median.",
        "lifetime_p90_s": "How long what was evicted had been cached: nine in ten were evicted before.",
        "evicted_idle_p50_s": "How long nobody had held what was evicted: the median.",
        "evicted_idle_p90_s": "How long nobody had held what was evicted: nine in ten were idle no longer.",
        "reuse_gap_p50_s": "From the last use of a block to the next: the median.",
        "reuse_gap_p90_s": "From the last use of a block to the next: nine in ten were used again before.",
        "cached_age_p50_s": "How long ago the cached blocks were allocated: the median.",
        "cached_idle_p50_s": "How long the cached blocks were not used: the median.",
        "age_p50_s": "How long what is cached has been there: the median.",
        "idle_p50_s": "How long nobody was known to use what is cached: the median.",
    },
    "Why prompts miss": {
        "missed_cold": "Prompt tokens computed in 60 seconds of blocks that nobody had cached before.",
        "missed_evicted": "Prompt tokens computed in 60 seconds of blocks that were cached once and evicted.",
        "missed_dropped": "Prompt tokens computed in 60 seconds of blocks that were dropped on purpose.",
        "missed_beside": "Prompt tokens computed in 60 seconds of blocks that another request had cached by then.",
        "missed_tail": "Prompt tokens computed in 60 seconds at ends of prompts, which fill no block.",
        "missed_evicted_ago_p50_s": "How long ago what prompts missed was evicted: the median.",
    },
    "Transfers and offload": {
        "transfers": "Not told by any engine yet.",
        "kv_loads_waiting": "Requests that wait for blocks from elsewhere.",
        "transfer_failures": "Transfers that failed or expired in an hour.",
        "offload_bytes_per_s": "Bytes moved to and from other tiers.",
        "offload_p99_s": "The slowest loads from the host, over 5 minutes.",
        "offload_failures": "Offloads that failed or were skipped in an hour.",
        "expired_leases": "Leases past their deadline that still keep blocks.",
        "affinity_lost": "Tokens missed that another engine had cached, over half an hour.",
    },
    "Leaks": {
        "leaked": "Blocks still held for requests that have ended.",
        "leaked_only": "Of these, held by nobody who lives.",
        "leaked_by_requests": "Blocks kept by requests that ended, leases apart.",
        "lost_to_requests": "Of these, held by nobody who lives.",
        "leaking_holders": "Requests and leases that are over and keep blocks.",
    },
    "Stream health": {
        "watched_s": "For how long the engine has been watched, a day at most.",
        "chains": "Prefixes that begin a chain of cached blocks.",
        "longest_chain": "Blocks of the longest chain.",
    },
}


def topic_of(figure: str) -> str:
    return next((topic for topic, figures in FIGURE_WORDS.items() if figure in figures), OTHER)


def words_of(figure: str) -> str:
    told = next((figures[figure] for figures in FIGURE_WORDS.values() if figure in figures), "")
    return told or f"{figure.replace('_', ' ').capitalize()}."
