"""The signals of the cache itself: how full it is, what is found in it, what a prompt's tokens came from."""

from __future__ import annotations

from typing import Final

from kvxray_backend.metrics.signal import Signal, Term, Told, counter, gauge, told

_SGLANG_HIT_MODES: Final = ("device_hit", "host_hit", "storage_hit")

FULLNESS: Final[tuple[Signal, ...]] = (
    gauge(
        "kv_usage",
        "ratio",
        "max",
        "Blocks that requests hold, of all blocks. What is only cached does not count: an idle engine with a full "
        "prefix cache tells 0. SGLang: the fullest of its pools.",
        vllm=told("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        sglang=told("sglang:token_usage"),
        trtllm=told("trtllm:kv_cache_utilization"),
        dynamo=told("dynamo:component_kvstats_gpu_cache_usage_percent"),
    ),
    gauge(
        "kv_usage_full_attention",
        "ratio",
        "max",
        "The same, of the pool of full attention alone.",
        sglang=told("sglang:full_token_usage"),
    ),
    gauge(
        "kv_usage_sliding_window",
        "ratio",
        "max",
        "The same, of the pool of sliding windows alone.",
        sglang=told("sglang:swa_token_usage"),
    ),
    gauge(
        "kv_usage_mamba",
        "ratio",
        "max",
        "The same, of the pool of Mamba states alone.",
        sglang=told("sglang:mamba_usage"),
    ),
    gauge(
        "kv_usage_host",
        "ratio",
        "max",
        "How full the cache in the host's memory is.",
        vllm=told("vllm:cpu_cache_usage_perc"),
        trtllm=told("trtllm:kv_cache_host_utilization"),
    ),
    gauge(
        "kv_capacity_blocks",
        "blocks",
        "sum",
        "Blocks of the pool. vLLM tells it in the labels of `vllm:cache_config_info`.",
        trtllm=told("trtllm:kv_cache_max_blocks"),
        dynamo=told("dynamo:component_kvstats_total_blocks"),
    ),
    gauge(
        "kv_used_blocks",
        "blocks",
        "sum",
        "Blocks that requests hold.",
        trtllm=told("trtllm:kv_cache_used_blocks"),
        dynamo=told("dynamo:component_kvstats_active_blocks"),
    ),
    gauge(
        "kv_free_blocks", "blocks", "sum", "Blocks that can be allocated.", trtllm=told("trtllm:kv_cache_free_blocks")
    ),
    gauge(
        "tokens_per_block",
        "tokens",
        "max",
        "Tokens a block. vLLM tells it in the labels of `vllm:cache_config_info`.",
        sglang=told("sglang:page_size"),
        trtllm=told("trtllm:kv_cache_tokens_per_block"),
    ),
    gauge(
        "kv_capacity_tokens",
        "tokens",
        "sum",
        "Tokens that the pool has room for.",
        sglang=told("sglang:max_total_num_tokens"),
    ),
    gauge(
        "kv_used_tokens",
        "tokens",
        "sum",
        "Tokens whose slots requests hold.",
        sglang=told("sglang:kv_used_tokens", "sglang:num_used_tokens"),
    ),
    gauge(
        "kv_available_tokens",
        "tokens",
        "sum",
        "Slots with nothing in them; near 0 once the cache is warm, which is no fault.",
        sglang=told("sglang:kv_available_tokens"),
    ),
    gauge(
        "kv_evictable_tokens",
        "tokens",
        "sum",
        "Tokens that are only cached, and make room when room is needed.",
        sglang=told("sglang:kv_evictable_tokens"),
    ),
    gauge(
        "swa_used_tokens",
        "tokens",
        "sum",
        "Tokens in use in the pool of sliding windows.",
        sglang=told("sglang:swa_used_tokens"),
    ),
    gauge(
        "swa_available_tokens",
        "tokens",
        "sum",
        "Empty slots in the pool of sliding windows.",
        sglang=told("sglang:swa_available_tokens"),
    ),
    gauge(
        "swa_evictable_tokens",
        "tokens",
        "sum",
        "Tokens only cached in the pool of sliding windows.",
        sglang=told("sglang:swa_evictable_tokens"),
    ),
    gauge("mamba_used_tokens", "tokens", "sum", "Mamba states in use.", sglang=told("sglang:mamba_used_tokens")),
    gauge(
        "mamba_available_tokens",
        "tokens",
        "sum",
        "Empty slots of Mamba states.",
        sglang=told("sglang:mamba_available_tokens"),
    ),
    gauge(
        "mamba_evictable_tokens",
        "tokens",
        "sum",
        "Mamba states only cached.",
        sglang=told("sglang:mamba_evictable_tokens"),
    ),
    gauge(
        "kv_cache_bytes",
        "bytes",
        "sum",
        "Memory that the pool takes on each device.",
        sglang=told("sglang:kv_cache_memory_usage_gb", factor=float(1 << 30)),
    ),
)

REUSE: Final[tuple[Signal, ...]] = (
    counter(
        "prefix_queries",
        "tokens",
        "Prompt tokens looked up in the prefix cache. Requests that go on after a preemption are not looked up again; "
        "under the old names they were.",
        vllm=told("vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries"),
        sglang=(
            *told("sglang:prefill_effective_tokens", mode=("input", *_SGLANG_HIT_MODES)),
            *told("sglang:realtime_tokens", mode=("prefill_cache", "prefill_compute")),
            *told("sglang:prompt_tokens"),
        ),
        trtllm=(
            Told(
                (Term(("trtllm:kv_cache_reused_blocks",)), Term(("trtllm:kv_cache_missed_blocks",))),
                times="tokens_per_block",
            ),
        ),
    ),
    counter(
        "prefix_hits",
        "tokens",
        "Those that were found, and need not be computed.",
        vllm=told("vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits"),
        sglang=(
            *told("sglang:prefill_effective_tokens", mode=_SGLANG_HIT_MODES),
            *told("sglang:realtime_tokens", mode=("prefill_cache",)),
            *told("sglang:cached_tokens"),
        ),
        trtllm=told("trtllm:kv_cache_reused_blocks", times="tokens_per_block"),
    ),
    counter(
        "reused_blocks",
        "blocks",
        "Blocks found in the cache: TensorRT-LLM counts hits in blocks.",
        trtllm=told("trtllm:kv_cache_reused_blocks"),
    ),
    counter("missed_blocks", "blocks", "Blocks looked up and not found.", trtllm=told("trtllm:kv_cache_missed_blocks")),
    gauge(
        "hit_rate_gauge",
        "ratio",
        "max",
        "The hit rate as the engine itself puts it: of its last batch, its last thousand requests or its whole life, "
        "and 0 where nothing was asked. Shown only where nothing is counted.",
        vllm=told("vllm:gpu_prefix_cache_hit_rate"),
        sglang=told("sglang:cache_hit_rate"),
        trtllm=told("trtllm:kv_cache_hit_rate"),
        dynamo=told("dynamo:component_kvstats_kv_cache_hit_rate", "dynamo:component_kvstats_gpu_prefix_cache_hit_rate"),
        lmcache=told("lmcache:retrieve_hit_rate"),
    ),
    counter(
        "external_prefix_queries",
        "tokens",
        "Prompt tokens looked up beyond the device: in a tier, a store, another engine.",
        vllm=told("vllm:external_prefix_cache_queries"),
        lmcache=(*told("lmcache:num_lookup_tokens"), *told("lmcache:num_requested_tokens")),
    ),
    counter(
        "external_prefix_hits",
        "tokens",
        "Those that were found there.",
        vllm=told("vllm:external_prefix_cache_hits"),
        lmcache=(*told("lmcache:num_lookup_hits"), *told("lmcache:num_hit_tokens")),
    ),
    counter(
        "multimodal_queries",
        "references",
        "Images and the like looked up in the multimodal cache, by the piece.",
        vllm=told("vllm:mm_cache_queries"),
    ),
    counter("multimodal_hits", "references", "Those that were found.", vllm=told("vllm:mm_cache_hits")),
    counter(
        "prompt_tokens",
        "tokens",
        "Tokens of prompts.",
        vllm=told("vllm:prompt_tokens"),
        sglang=told("sglang:prompt_tokens"),
    ),
    counter(
        "prompt_tokens_by_source",
        "tokens",
        "Where the tokens of prompts came from: computed here, cached, transferred.",
        vllm=told("vllm:prompt_tokens_by_source", split="source"),
        sglang=(
            *told("sglang:prefill_effective_tokens", split="mode"),
            *told("sglang:realtime_tokens", split="mode", mode=("prefill_cache", "prefill_compute")),
        ),
    ),
    counter(
        "cached_prompt_tokens",
        "tokens",
        "Tokens of prompts that came from a cache, whichever.",
        vllm=told("vllm:prompt_tokens_cached"),
        sglang=told("sglang:cached_tokens"),
        trtllm=told("trtllm:prompt_cached_tokens"),
    ),
    counter(
        "cached_prompt_tokens_by_tier",
        "tokens",
        "The same, by the tier that had them: device, host, disk or storage, p2p.",
        vllm=told("vllm:prompt_tokens_cached_by_source", split="source"),
        sglang=told("sglang:cached_tokens", split="cache_source"),
    ),
    counter(
        "recomputed_prompt_tokens",
        "tokens",
        "Cached tokens computed again all the same; told from vLLM 0.16 until 0.24.",
        vllm=told("vllm:prompt_tokens_recomputed"),
    ),
    counter("evicted_tokens", "tokens", "Tokens that left the cache for others.", sglang=told("sglang:evicted_tokens")),
)
