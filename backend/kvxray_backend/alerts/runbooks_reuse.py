"""Runbooks of the rules about what caches bring, and about blocks that are held, or read too late."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvxray_backend.alerts.runbook import Runbook

REUSE_RUNBOOKS: Final[Mapping[str, Runbook]] = {
    "KVHitRateCollapse": Runbook(
        meaning="Prompts no longer begin as they did, or no longer come to the engine that has their beginning. Every "
        "miss is computed, so times to the first token and load rise together.",
        confirm=(
            "Overview: **Prefix hit rate by tier**: half an hour against the day, with the tokens looked up.",
            "Timelines: the minute in which it fell. A cliff is a deploy or a restart, a slope is load or the router.",
            "Live, **Cached prefixes**: many short branches where one trunk was, all parting at one depth.",
        ),
        on_vllm=(
            "Compare prompts before and after that minute: what changes with each request (date, id, order of tools) "
            "belongs at the end.",
            "See whether requests carry a new `cache_salt`, adapter or image: each parts the cache.",
            "Restarted? Caches are cold and fill again by themselves; an hour is allowed for.",
        ),
        on_sglang=("SGLang counts hits under other names: SGLangHitRateCollapse is the same rule over them.",),
    ),
    "OffloadNotPaying": Runbook(
        meaning="Loads from host memory take longer than computing the same tokens would. Requests wait for what was "
        "meant to save them time.",
        confirm=(
            "Overview: **Transfers and offload** (Offload, p99; Waiting on KV loads).",
            "Signals: **Offload and tiers** (Offload load bandwidth; Offload load size): far below what the link can "
            "do, or loads of a few blocks.",
            "Signals: **Reuse of prefixes** (Hit rate, external): next to nothing found means paying for nothing.",
        ),
        on_vllm=(
            "Larger pieces: `block_size` in `kv_connector_extra_config` of the `OffloadingConnector`, a multiple of "
            "the engine's own.",
            "Bind the process to the GPU's NUMA node (`numactl --cpunodebind --membind`); see `nvidia-smi topo -m`.",
            "Try without: leave out `--kv-offloading-size` (or `--kv-transfer-config`) on one replica and compare.",
        ),
        on_sglang=(
            "SGLang tells no seconds of loading beside what they saved, so this rule cannot be told of it; "
            "HiCacheDropping and `sglang:load_back_duration_seconds` are what there is.",
        ),
    ),
    "UsageFloorRising": Runbook(
        meaning="Even at its quietest the engine holds more from hour to hour, and it has no more to do. What is held "
        "between requests belongs to requests that are over.",
        confirm=(
            "Signals: **How full the cache is** (Cache in use): the lowest points of three hours, each above the one "
            "before. **Queue and requests** (Requests running): its lowest points do not rise.",
            "Where the engine has a quiet minute, KVHeldWhileIdle follows.",
            "An engine of our own names the holders: LeakNamed and PinNeverReleased, and needs no such guess.",
        ),
        on_vllm=(
            "`vllm:kv_cache_usage_perc` counts what requests hold, not what is cached: a warm cache does not raise it.",
            "Compare with `vllm:num_requests_running`; where prompts grew longer, that is the reason.",
        ),
        on_sglang=(
            "`sglang:token_usage` counts what requests and sessions hold: sessions that never close look like this.",
            "SGLangPoolResidual tells it exactly as soon as the engine is idle.",
        ),
    ),
    "KVHeldWhileIdle": Runbook(
        meaning="Somebody who is gone still owns blocks: a lease for an engine that died, or a leak. What is held is "
        "lost to everybody until it is let go.",
        confirm=(
            "Overview: **Cache in use**: above 0 while **Scheduler queue** shows nobody.",
            "Signals: **Transfers between engines** (Transfer expired; Transfer failures): leases that ran out, or "
            "did not.",
            "Timelines, a day: the lowest usage of each night. Rising from night to night is a leak.",
        ),
        on_vllm=(
            "Prefill engines hold blocks until they are fetched: up to `VLLM_NIXL_ABORT_REQUEST_TIMEOUT` (480 s) in "
            "older releases, `kv_lease_duration` (30 s, renewed by the other side) in later ones. Wait so long first.",
            "`POST /reset_prefix_cache` (it takes `VLLM_SERVER_DEV_MODE=1`): while blocks are held its log says "
            "`Failed to reset prefix cache`, and how many are not freed yet. That proves it.",
            "Restart in a quiet hour, and report it with the release, the connector and a recording.",
        ),
        on_sglang=("SGLang tells the parts of its pool, so SGLangPoolResidual sees the same there, and to the token.",),
    ),
    "KVReadAfterExpiry": Runbook(
        meaning="A decode engine fetched blocks whose lease had run out: they may have held another request's keys "
        "and values. The answers look like answers.",
        confirm=(
            "Signals: **Transfers between engines** (Read after expiry): the minutes in which it grew.",
            "Signals: **Times and sizes of requests** (Queue time) of the decode engines then: longer than the lease?",
            "Fleet: which decode engine was behind.",
        ),
        on_vllm=(
            "Raise `kv_lease_duration` in `kv_connector_extra_config` of the prefill engines (30 s; older releases: "
            "`VLLM_NIXL_ABORT_REQUEST_TIMEOUT`, 480 s) above the longest wait.",
            "Find the requests of those minutes in the gateway's log and treat their answers as suspect.",
            "The log line comes once for each tensor-parallel rank: count the metric, not lines.",
        ),
        on_sglang=(
            "SGLang tells no such counter, so this rule cannot be told of it; its prefill side gives up after "
            "`SGLANG_DISAGGREGATION_BOOTSTRAP_TIMEOUT`, its decode side after `SGLANG_DISAGGREGATION_WAITING_TIMEOUT`.",
        ),
    ),
    "KVSeriesVanished": Runbook(
        meaning="The engine is up and a metric that rules rest on is gone. Nothing is known to be wrong, and nothing "
        "would be noticed.",
        confirm=(
            "Signals, at the foot: what this engine does not tell. Cache in use is among it.",
            "Timelines: the hole begins at one moment. Was the engine restarted then?",
            "Overview: **Stream health**: whether metrics are read at all.",
        ),
        on_vllm=(
            "`curl http://ENGINE:8000/metrics | grep cache_usage`: a name that is not in docs/signals.md is news.",
            "Hidden metrics of an older release come back with `--show-hidden-metrics-for-version` for one release.",
            "`--disable-log-stats` switches them all off: take it away.",
        ),
        on_sglang=(
            "This rule looks at vLLM's name. An SGLang without `--enable-metrics` tells nothing at all, and its page "
            "says that its metrics cannot be read.",
        ),
    ),
    "RouterAffinityLost": Runbook(
        meaning="Requests go to engines that do not have their prefix while another has it. The cache is paid for and "
        "not used.",
        confirm=(
            "Overview: **Fleet** (Affinity lost).",
            "Signals: **Router** (Predicted hit rate; Affinity lost): since when.",
            "Signals: **Index of the router** (Index subscribers; Index reconnects; ZMQ errors): an index that lost "
            "an engine sends away from it.",
        ),
        on_vllm=(
            "llm-d: the weight of `precise-prefix-cache-scorer` against `queue-scorer` and "
            "`kv-cache-utilization-scorer`.",
            "Block size, hash seed (`PYTHONHASHSEED`) and tokenizer of the index must be the engines'.",
            "One subscriber for each engine and rank: ports are base + rank.",
        ),
        on_sglang=(
            "SGLang's router keeps no such counters, so this rule cannot be told of it; `--policy cache_aware` with a "
            "lower `--cache-threshold` follows prefixes more.",
        ),
    ),
}
