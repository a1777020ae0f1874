"""Runbooks of the rules over SGLang's metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvxray_backend.alerts.runbook import Runbook

SGLANG_RUNBOOKS: Final[Mapping[str, Runbook]] = {
    "SGLangRetractionStorm": Runbook(
        meaning="The scheduler took in more than the pool can carry to the end: it guesses how long answers get, and "
        "guessed too low. What is retracted begins anew.",
        confirm=(
            "Signals: **Queue and requests** (Preemptions): retractions, counted once for all ranks.",
            "Overview: **Cache in use**: peaks near 100 %.",
            "Timelines: generated tokens a second after the storm, against before. Still low is a reason to restart.",
        ),
        on_vllm=("vLLM preempts instead, which KVPreemptionStorm tells.",),
        on_sglang=(
            "Raise `--schedule-conservativeness` (1.0; try 1.3): it takes in less.",
            "Bound `max_new_tokens` of requests, or `--max-running-requests`.",
            "Make room: `--mem-fraction-static`, `--kv-cache-dtype fp8_e5m2` or `fp8_e4m3` (check answers first).",
            "The log says `KV cache pool is full. Retract requests.` with how many.",
        ),
    ),
    "SGLangEvictionStall": Runbook(
        meaning="The pool has nothing available, a third of it could be evicted, and nothing is computed: eviction, or "
        "what waits for it, hangs.",
        confirm=(
            "Signals: **How full the cache is** (KV available tokens; KV evictable tokens): the first near 0, "
            "the second high.",
            "Signals: **Queue and requests** (Generated tokens): flat for two minutes, with requests running or "
            "waiting.",
            "Live: no new events since then.",
        ),
        on_vllm=("vLLM evicts as it allocates and keeps no such pools: EngineNoProgress tells an engine that stands.",),
        on_sglang=(
            "`py-spy dump --pid PID` of every scheduler process: the watchdog (`--watchdog-timeout`, 300 s) ends it.",
            "Take it out of the router; its watchdog or you restart it.",
            "With HiCache on, try without (`--enable-hierarchical-cache` left out) if it comes again, and report it.",
        ),
    ),
    "SGLangPoolResidual": Runbook(
        meaning="With nothing running, available, evictable and used tokens must make up the pool. They do not: the "
        "difference leaked, or is counted twice.",
        confirm=(
            "Signals: **How full the cache is**: KV capacity tokens less available, evictable and used.",
            "Overview: **Open findings**: `conservation_violation` names the number and its sign.",
            "Timelines: does it grow with requests that clients gave up (Signals: **Queue and requests**, Requests "
            "aborted)?",
        ),
        on_vllm=("vLLM tells one usage and no parts of it: KVHeldWhileIdle is what its metrics can tell.",),
        on_sglang=(
            "Look for `token_to_kv_pool_allocator memory leak detected!` in its log: its own check when idle. Releases "
            "with `SGLANG_ENABLE_STRICT_MEM_CHECK_DURING_IDLE` end the process then.",
            "`POST /flush_cache` when idle: what is still missing afterwards is leaked for good. Then restart.",
            "Close sessions that are no longer used: their tokens belong to no request.",
        ),
    ),
    "SGLangHitRateCollapse": Runbook(
        meaning="Prompts no longer begin as they did, or go to other engines than before. What is missed is computed.",
        confirm=(
            "Overview: **Prefix hit rate by tier**: half an hour against the day.",
            "Signals: **Reuse of prefixes** (Cached prompt tokens by tier): hits that only moved from device to host "
            "are no loss.",
            "Live, **Cached prefixes**: where branches part that used to share a trunk.",
        ),
        on_vllm=("vLLM counts hits under other names: KVHitRateCollapse is the same rule over them.",),
        on_sglang=(
            "Compare prompts before and after that minute: what changes with each request belongs at the end.",
            "`--enable-cache-report` puts cached tokens into each answer's usage: which client lost them?",
            "A restart or `POST /flush_cache` empties it: it fills again by itself.",
            "With its router: was `--policy cache_aware` lost in a deploy?",
        ),
    ),
    "HiCacheDropping": Runbook(
        meaning="The host's tier throws away what requests do come back for: a larger one would save prefills.",
        confirm=(
            "Signals: **Offload and tiers** (Host dropped tokens, by reason; Host load back tokens).",
            "Signals: **Reuse of prefixes** (Cached prompt tokens by tier): the share of the host.",
            "Signals: **Offload and tiers** (Host used tokens; Host capacity tokens): full is normal, dropping what "
            "is fetched is not.",
        ),
        on_vllm=("vLLM has no HiCache: OffloadNotPaying looks at its host tier.",),
        on_sglang=(
            "More memory: `--hicache-ratio` (times the device's pool), or `--hicache-size` in GB, which wins.",
            "`--hicache-write-policy write_through_selective` keeps only what was hit again; `write_back` writes at "
            "eviction.",
            "A third tier (`--hicache-storage-backend`) keeps what the host drops.",
        ),
    ),
}
