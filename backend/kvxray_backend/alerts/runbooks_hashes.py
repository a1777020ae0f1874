"""Runbooks of the rules over cached prefixes: what their hashes, tenants and configurations tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvxray_backend.alerts.runbook import Runbook

HASH_RUNBOOKS: Final[Mapping[str, Runbook]] = {
    "EvictionRegret": Runbook(
        meaning="What is thrown out is needed again within the minute. The prefixes in use are larger than the cache, "
        "so it works and brings little.",
        confirm=(
            "The finding says which blocks return, and how often.",
            "Overview: **Evictions and age** (Evictions; Eviction regret); how young what is cached is.",
            "Live, **Cached prefixes**: which trunks are stored again and again (colours: Age).",
        ),
        on_vllm=(
            "More blocks: `--kv-cache-dtype fp8`, `--gpu-memory-utilization`, or a host tier (`--kv-offloading-size`).",
            "Fewer prefixes at once: a lower `--max-num-seqs`, and a router that keeps sessions with one prefix "
            "together.",
        ),
        on_sglang=(
            "More room: `--mem-fraction-static`, `--kv-cache-dtype fp8_e5m2`, or a host tier "
            "(`--enable-hierarchical-cache`, `--hicache-ratio`).",
            "`--radix-eviction-policy lfu` keeps what many ask for; the default `lru` what was asked for last.",
            "Its router's `--policy cache_aware` keeps sessions with one prefix together.",
        ),
    ),
    "OverCapacity": Runbook(
        meaning="By its events the engine holds more than it has room for. Its picture here is too large: removals "
        "were lost, or one block was counted twice.",
        confirm=(
            "Live: Cached blocks against the capacity in the same tile.",
            "Overview: **Stream health**: Gaps. History, Findings: `seq_gap` before it.",
            "Live, **What can be known**: what repeated stores of this engine are taken for.",
        ),
        on_vllm=(
            "With `kv_cache_report_mode` full, reused blocks are told as stored: say so (`store_semantics`).",
            "A replay endpoint (`replay_endpoint`) brings lost removals back.",
            "`POST /reset_prefix_cache` (with `VLLM_SERVER_DEV_MODE=1`) makes both begin at nothing, with the next "
            "request.",
        ),
        on_sglang=(
            "A replay endpoint (`replay_endpoint`) brings lost removals back.",
            "`POST /flush_cache` when idle makes both begin at nothing.",
        ),
    ),
    "CrossTenantHit": Runbook(
        meaning="What one tenant computed can be found by another. With salts promised, that is a leak of prompts "
        "between tenants: by timing, or by content where hashes collide.",
        confirm=(
            "The finding names the hash and both salts, adapters or parents, as digests; of an engine that tells of "
            "blocks it names salts, blocks and the requests that held them at once.",
            "Live, **Cached prefixes**: the marked block, and the prompts that go on from it.",
            "Ask the gateway whose requests came at that moment: kvxray keeps no prompts.",
        ),
        on_vllm=(
            "Send `cache_salt` with each request, one for each tenant: the gateway should set it, not the client.",
            "`--prefix-caching-hash-algo sha256` (or `sha256_cbor`): neither `builtin` of older releases nor `xxhash` "
            "withstands an attacker.",
            "`POST /reset_prefix_cache` (with `VLLM_SERVER_DEV_MODE=1`) or a restart clears what is shared.",
        ),
        on_sglang=(
            "Its tree compares tokens, so that hashes cannot collide in it; tenants are parted by `cache_salt` (or "
            "`extra_key`) of each request, which the gateway should set.",
            "`POST /flush_cache` when idle clears what is shared.",
        ),
    ),
    "SeedMismatch": Runbook(
        meaning="Engines that should share (a router's index, a store of blocks, transfers) cannot: the same tokens "
        "have other names in each.",
        confirm=(
            "The finding names both engines and a prefix that both hold.",
            "Fleet: the same model, version and block size in both?",
            "Signals: **Router** (Predicted hit rate), where a router is attached: lower than one would think.",
        ),
        on_vllm=(
            "Set the same `PYTHONHASHSEED` for all: older releases, and `xxhash` in all, draw one at each start.",
            "The same `--prefix-caching-hash-algo` (`sha256_cbor` is the same in every process and language) and "
            "`--block-size`.",
        ),
        on_sglang=(
            "Its hashes have no seed: look for another `--page-size`, tokenizer or speculative algorithm (EAGLE "
            "hashes pairs of tokens).",
        ),
    ),
    "PrefixCachingOff": Runbook(
        meaning="As it is configured the cache cannot bring anything, whatever the prompts are.",
        confirm=(
            "The finding says why.",
            "Overview: **Prefix hit rate by tier**: 0, or no data, over half an hour.",
            "Signals: **How full the cache is** (Tokens per block): longer than prompts share?",
        ),
        on_vllm=(
            "Take `--no-enable-prefix-caching` away; it is on unless switched off.",
            "A smaller `--block-size` (16): only whole blocks are reused.",
            "Models with Mamba or linear attention reuse states only in releases and modes that support it: see the "
            "engine's log at start.",
        ),
        on_sglang=(
            "Take `--disable-radix-cache` away.",
            "A smaller `--page-size`: only whole pages are reused.",
        ),
    ),
    "MetricsContradiction": Runbook(
        meaning="One of two numbers is wrong, or they are of two engines. Rules that rest on them may ring for "
        "nothing, or be silent.",
        confirm=(
            "The finding names both numbers, and since when.",
            "Overview: **Stream health**: whether events and metrics are of the same restart.",
            "Signals, over an hour: a counter that jumps up and down is two engines behind one address.",
        ),
        on_vllm=(
            "Read each pod's own `/metrics`, not a service in front of several.",
            "With a Prometheus, `--match` must name one engine: `--match pod=vllm-0`.",
        ),
        on_sglang=(
            "Read each server's own `/metrics`, not its router's.",
            "Gauges of tensor-parallel ranks repeat each other: another reader that sums them is what is wrong.",
        ),
    ),
}
