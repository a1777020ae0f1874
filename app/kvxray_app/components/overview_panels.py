"""The panels of the overview: which figures each holds, and what they mean. `docs/boards.md` names them.

`rows` are figures of `/api/overview` by name. Those that need more than an engine's events have no value there, and the
page says so in words.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

MINUTE = "over the last 60 seconds"


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. no_data: why it may have no value. plain: a ratio that is no share, written as a number."""

    figure: str
    label: str
    meaning: str
    no_data: str = "No request of the last minute tells it."
    plain: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """`key` names it in the page's code, `title` on the page."""

    key: str
    title: str
    rows: tuple[Row, ...]
    link: str = "timelines"


NOTHING_STORED = "Nothing is stored of that time yet."
NOT_KNOWN = "The state of the pool is not known."
NOT_FOLLOWED = "What happened in that minute was not followed, or is too much to be read again."
NONE_EVICTED = "No block was evicted in 60 seconds."
NONE_REUSED = "No block was used again in 60 seconds."
NO_MISS = "No prompt in 60 seconds; of the past it is known only where the engine's first minutes are."
NO_METRICS = "That takes metrics of the engine; its events do not tell."

PANELS: tuple[Panel, ...] = (
    Panel(
        "usage",
        "Cache in use",
        (
            Row("used", "Now", "Blocks held by at least one request, of all usable ones.", NOT_KNOWN),
            Row("used_mean_5m", "Mean, 5 min", "Of readings a few times a second.", NOTHING_STORED),
            Row("used_max_5m", "Most, 5 min", "The highest of readings a few times a second.", NOTHING_STORED),
            Row("internal_fragmentation", "Fragmentation", "Slots not written, of those in held blocks.", NOT_KNOWN),
        ),
        link="live",
    ),
    Panel(
        "latency",
        "Latency",
        (
            Row("ttft_p50_s", "Time to first token, p50", f"From arrival to the first token, {MINUTE}: the median."),
            Row("ttft_p99_s", "Time to first token, p99", f"The slowest in a hundred, {MINUTE}."),
            Row("queue_p50_s", "Queue time, p50", f"From arrival to a place in the batch, {MINUTE}: the median."),
            Row("queue_p99_s", "Queue time, p99", f"The longest in a hundred, {MINUTE}."),
            Row("prefill_p50_s", "Prefill time, p50", f"From a place in the batch to the first token, {MINUTE}."),
            Row("itl_p50_s", "Inter-token latency, p50", f"Between tokens, {MINUTE}; estimated to 9 %."),
            Row("itl_p99_s", "Inter-token latency, p99", f"The slowest in a hundred, {MINUTE}; estimated to 9 %."),
        ),
    ),
    Panel(
        "requests",
        "Scheduler queue",
        (
            Row("running", "Running", "Requests being computed.", "The engine has not said."),
            Row("waiting_new", "Waiting, new", "Requests that have not been in the batch yet.", "Not known yet."),
            Row(
                "waiting_preempted",
                "Waiting, preempted",
                "Requests that had to give up their blocks.",
                "Not known yet.",
            ),
            Row("oldest_wait_s", "Longest wait", "Since the arrival of the oldest that waits.", "Nobody waits."),
            Row("waiting_for_capacity", "Waiting for capacity", "For want of blocks or places.", NO_METRICS),
            Row("waiting_deferred", "Waiting, deferred", "Held back on purpose.", NO_METRICS),
        ),
    ),
    Panel(
        "hits",
        "Prefix hit rate by tier",
        (
            Row("hit_rate", "Device, 60 s", "Prompt tokens found, of those looked up.", "No prompt in 60 seconds."),
            Row("prompt_tokens_queried", "of tokens, 60 s", "Looked up: the denominator.", "No prompt in 60 seconds."),
            Row("hit_rate_30m", "Device, 30 min", "The same over half an hour.", "No prompt in 30 minutes."),
            Row("queried_30m", "of tokens, 30 min", "Looked up: the denominator.", "Nothing is stored of that time."),
            Row("hit_rate_day", "Device, 1 day", "The same over the engine's day.", "Not watched for an hour yet."),
            Row("hit_rate_host", "Host", "Found in the host's memory.", NO_METRICS),
            Row("hit_rate_external", "External", "Found in a cache outside the engine.", NO_METRICS),
        ),
    ),
    Panel(
        "prompts",
        "Prompt tokens by source",
        (
            Row("prompt_tokens_queried", "Looked up", f"Prompt tokens {MINUTE}.", "No prompt in 60 seconds."),
            Row("prompt_tokens_hit", "From the cache", "Of these, found in the prefix cache.", "No prompt."),
            Row("prompt_tokens_computed", "Computed", "Of these, computed anew.", "No prompt in 60 seconds."),
            Row("tokens_per_s", "Generated", "Tokens a second, over 10 seconds.", "No events in 10 seconds."),
        ),
    ),
    Panel(
        "preemptions",
        "Preemptions",
        (
            Row(
                "preemptions_per_finished",
                "Per finished request",
                "Preemptions of the last 10 minutes for each request that ended meanwhile; 0.08 is healthy.",
                "No request ended in 10 minutes.",
                plain=True,
            ),
            Row("preemptions_10m", "In 10 min", "How often a request had to give up its blocks.", NOTHING_STORED),
            Row("finished_10m", "Ended in 10 min", "Requests finished, aborted or failed.", NOTHING_STORED),
            Row("preemptions_per_s", "Now", "A second, over 10 seconds.", "No events in 10 seconds."),
            Row(
                "tokens_recomputed",
                "Tokens recomputed, 60 s",
                "Computed before a preemption and not found in the cache when the request ran again.",
                "No preempted request ran again in 60 seconds.",
            ),
        ),
    ),
    Panel(
        "evictions",
        "Evictions and age",
        (
            Row("evictions_per_s", "Evictions", "Cached blocks given up, over 10 seconds.", "No events in 10 seconds."),
            Row(
                "eviction_regret",
                "Eviction regret",
                f"Hashes cached again within a minute of their eviction, for each evicted {MINUTE}.",
                "Nothing was evicted in 60 seconds.",
            ),
            Row("allocations_per_s", "Allocations", "Blocks given out, over 10 seconds.", "No events in 10 seconds."),
            Row("cached_idle_p50_s", "Cached, idle, p50", "How long the cached blocks were not used.", "None cached."),
            Row("cached_age_p50_s", "Cached, age, p50", "How long ago they were allocated.", "None is cached."),
        ),
    ),
    Panel(
        "lives",
        "Blocks at eviction and reuse",
        (
            Row("blocks_evicted", "Evicted, 60 s", "Blocks that were cached, given up for others.", NOT_FOLLOWED),
            Row("lifetime_p50_s", "Block lifetime, p50", "From allocation to eviction: the median.", NONE_EVICTED),
            Row("lifetime_p90_s", "Block lifetime, p90", "Nine in ten were evicted before.", NONE_EVICTED),
            Row("evicted_idle_p50_s", "Idle before eviction, p50", "Since nobody held them: the median.", NONE_EVICTED),
            Row("evicted_idle_p90_s", "Idle before eviction, p90", "Nine in ten were idle no longer.", NONE_EVICTED),
            Row("blocks_reused", "Reused, 60 s", "Cached blocks that nobody held, hit by a prompt.", NOT_FOLLOWED),
            Row("reuse_gap_p50_s", "Reuse gap, p50", "From the last use to the next: the median.", NONE_REUSED),
            Row("reuse_gap_p90_s", "Reuse gap, p90", "Nine in ten were used again before.", NONE_REUSED),
        ),
    ),
    Panel(
        "misses",
        "Missed prompt tokens",
        (
            Row("missed_cold", "Never seen", f"Of blocks that nobody had cached before; computed {MINUTE}.", NO_MISS),
            Row("missed_evicted", "Evicted before", "Of blocks that were cached once and evicted.", NO_MISS),
            Row("missed_evicted_ago_p50_s", "Evicted, how long ago, p50", "The median of those.", "None was evicted."),
            Row("missed_beside", "Cached meanwhile", "Of blocks that another request had cached by then.", NO_MISS),
            Row("missed_dropped", "Dropped before", "Of blocks whose hashes were dropped on purpose.", NO_MISS),
            Row("missed_tail", "No full block", "Ends of prompts, which are never cached.", "No prompt in 60 seconds."),
        ),
    ),
    Panel(
        "transfers",
        "Transfers and offload",
        (
            Row(
                "expired_leases", "Leases past deadline", "Blocks kept for a transfer that did not come.", "Not known."
            ),
            Row("kv_loads_waiting", "Waiting on KV loads", "Requests that wait for blocks from elsewhere.", NO_METRICS),
            Row(
                "transfer_failures", "Transfer failures", "That failed or came too late, in the last hour.", NO_METRICS
            ),
            Row("offload_bytes_per_s", "Offload, each second", "Bytes moved to and from other tiers.", NO_METRICS),
            Row("offload_p99_s", "Offload, p99", "The slowest loads from the host, over 5 minutes.", NO_METRICS),
            Row(
                "offload_failures",
                "Offload, failed",
                "Stores that failed or were skipped, in the last hour.",
                NO_METRICS,
            ),
        ),
    ),
    Panel(
        "leaks",
        "Leaks",
        (
            Row("leaked", "Leaked blocks", "Still held for requests that have ended.", "Holders are not known."),
            Row("leaked_only", "Held by nobody living", "Of these, lost to all others.", "Holders are not known."),
            Row("leaking_holders", "Holders that leak", "Requests and leases that are over.", "Not known."),
        ),
        link="live",
    ),
)

FLEET = Panel(
    "fleet",
    "Fleet",
    (
        Row("used_mean", "In use, mean of engines", "Of the engines that are followed now.", "No engine tells it."),
        Row("used_max", "In use, fullest engine", "The highest among them.", "No engine tells it."),
        Row(
            "used_spread",
            "In use, widest spread",
            "Among engines of one model and role.",
            "There are no two to compare.",
        ),
        Row("running", "Running", "In all of them.", "Not known of all of them."),
        Row("waiting", "Waiting", "In all of them.", "Not known of all of them."),
        Row("affinity_lost", "Affinity lost", "Tokens missed that a peer has cached.", "That takes the router's word."),
    ),
)

ALERTS_TITLE = "Active alerts"
HEALTH_TITLE = "Stream health"
FINDINGS_TITLE = "Open findings"
LATELY_TITLE = "Lately"
TENANTS_TITLE = "Shares by tenant"

CAUSES = {
    "kv": ("KV", "The cache itself: leaks, preemptions, evictions, lost hits, or no blocks left."),
    "compute": ("Compute", "Computing takes longer, or stands still."),
    "queue": ("Queue", "Requests wait for a place in the batch though the cache has room."),
    "transfer": ("Transfer", "Blocks on their way between engines or tiers."),
}
STATUSES = {
    "healthy": "Healthy",
    "warning": "Look at it",
    "critical": "Act now",
    "cannot_tell": "Cannot tell",
}


def overview_words() -> dict[str, Any]:
    """All of it as the component takes it."""
    return {
        "panels": [asdict(panel) for panel in PANELS],
        "fleet": asdict(FLEET),
        "titles": {
            "alerts": ALERTS_TITLE,
            "health": HEALTH_TITLE,
            "findings": FINDINGS_TITLE,
            "lately": LATELY_TITLE,
            "tenants": TENANTS_TITLE,
        },
        "causes": {key: {"label": label, "meaning": meaning} for key, (label, meaning) in CAUSES.items()},
        "statuses": STATUSES,
    }
