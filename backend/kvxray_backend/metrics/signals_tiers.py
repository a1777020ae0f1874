"""The signals of what lies beyond the device: offload to the host, to disk and further."""

from __future__ import annotations

from typing import Final

from kvxray_backend.metrics.signal import Signal, Term, Told, counter, gauge, histogram, told

_TO_DEVICE: Final = ("CPU_to_GPU",)
_FROM_DEVICE: Final = ("GPU_to_CPU",)

OFFLOAD: Final[tuple[Signal, ...]] = (
    counter(
        "offload_load_bytes",
        "bytes",
        "Bytes brought back to the device.",
        vllm=(*told("vllm:kv_offload_load_bytes"), *told("vllm:kv_offload_total_bytes", transfer_type=_TO_DEVICE)),
        trtllm=told("trtllm:kv_cache_onboard_bytes"),
    ),
    counter(
        "offload_store_bytes",
        "bytes",
        "Bytes offloaded from the device.",
        vllm=(*told("vllm:kv_offload_store_bytes"), *told("vllm:kv_offload_total_bytes", transfer_type=_FROM_DEVICE)),
        trtllm=told("trtllm:kv_cache_offload_bytes"),
    ),
    counter(
        "offload_load_time",
        "seconds",
        "Time that bringing back took; bytes by it is the bandwidth.",
        vllm=(*told("vllm:kv_offload_load_time"), *told("vllm:kv_offload_total_time", transfer_type=_TO_DEVICE)),
    ),
    counter(
        "offload_store_time",
        "seconds",
        "Time that offloading took.",
        vllm=(*told("vllm:kv_offload_store_time"), *told("vllm:kv_offload_total_time", transfer_type=_FROM_DEVICE)),
    ),
    histogram(
        "offload_load_size",
        "bytes",
        "Size of one load.",
        vllm=(*told("vllm:kv_offload_load_size"), *told("vllm:kv_offload_size", transfer_type=_TO_DEVICE)),
    ),
    histogram(
        "offload_store_size",
        "bytes",
        "Size of one store.",
        vllm=(*told("vllm:kv_offload_store_size"), *told("vllm:kv_offload_size", transfer_type=_FROM_DEVICE)),
    ),
    histogram(
        "offload_lookup_sync",
        "seconds",
        "Time a lookup held up the scheduler.",
        vllm=told("vllm:kv_offload_lookup_sync_delay_seconds"),
    ),
    histogram(
        "offload_lookup_async",
        "seconds",
        "Time a request was put off for a lookup.",
        vllm=told("vllm:kv_offload_lookup_async_delay_seconds"),
    ),
    counter(
        "offload_allocation_failures",
        "requests",
        "Stores given up since the host had no room.",
        vllm=told("vllm:kv_offload_allocation_failure"),
    ),
    counter(
        "offload_stores_skipped",
        "requests",
        "Stores that were not worth it.",
        vllm=told("vllm:kv_offload_stores_skipped"),
    ),
    gauge(
        "offload_host_usage",
        "ratio",
        "max",
        "How much of the host's tier transfers under way hold.",
        vllm=told("vllm:kv_offload_cpu_cache_usage_perc"),
    ),
    gauge(
        "offload_host_write_usage",
        "ratio",
        "max",
        "Of that, held by stores.",
        vllm=told("vllm:kv_offload_cpu_cache_write_usage_perc", "vllm:kv_offload_cpu_write_usage_perc"),
    ),
    gauge(
        "offload_host_read_usage",
        "ratio",
        "max",
        "Of that, held by loads.",
        vllm=told("vllm:kv_offload_cpu_cache_read_usage_perc", "vllm:kv_offload_cpu_read_usage_perc"),
    ),
    counter(
        "tier_queries",
        "blocks",
        "Chunks looked up in a further tier, by tier.",
        vllm=told("vllm:kv_offload_tiering_chunk_queries", "vllm:kv_offload_tiering_block_queries", split="tier"),
    ),
    counter(
        "tier_hits",
        "blocks",
        "Chunks found there.",
        vllm=told("vllm:kv_offload_tiering_chunk_hits", "vllm:kv_offload_tiering_block_hits", split="tier"),
    ),
    counter(
        "tier_read_bytes",
        "bytes",
        "Bytes read from a further tier.",
        vllm=told("vllm:kv_offload_tiering_read_bytes", split="tier"),
    ),
    counter(
        "tier_write_bytes",
        "bytes",
        "Bytes written to a further tier.",
        vllm=told("vllm:kv_offload_tiering_write_bytes", split="tier"),
    ),
    counter(
        "tier_promotion_failures",
        "requests",
        "Loads from a further tier that failed.",
        vllm=told("vllm:kv_offload_tiering_promotion_job_failures", split="tier"),
    ),
    gauge(
        "simple_offload_used_blocks",
        "blocks",
        "sum",
        "Blocks in the host's pool of the simple connector.",
        vllm=told("vllm:simple_kv_offload_used_blocks"),
    ),
    gauge(
        "simple_offload_pending_blocks",
        "blocks",
        "sum",
        "Blocks on their way into it.",
        vllm=told("vllm:simple_kv_offload_pending_store_blocks"),
    ),
    counter(
        "simple_offload_outcomes",
        "blocks",
        "What became of blocks that might be saved, by outcome.",
        vllm=told("vllm:simple_kv_offload_save_outcomes", split="outcome"),
    ),
    counter(
        "simple_offload_load_blocks",
        "blocks",
        "Blocks brought back from it.",
        vllm=told("vllm:simple_kv_offload_load_blocks"),
    ),
    gauge(
        "host_used_tokens",
        "tokens",
        "sum",
        "Tokens in the host's tier. Full is its normal state under write-through.",
        sglang=told("sglang:hicache_host_used_tokens"),
    ),
    gauge(
        "host_capacity_tokens",
        "tokens",
        "sum",
        "Tokens that the host's tier has room for.",
        sglang=told("sglang:hicache_host_total_tokens"),
    ),
    counter(
        "host_backup_tokens",
        "tokens",
        "Tokens copied to the host, by pool.",
        sglang=told("sglang:hicache_backup_tokens", split="pool"),
    ),
    counter(
        "host_load_back_tokens",
        "tokens",
        "Tokens brought back from the host, by pool.",
        sglang=told("sglang:load_back_tokens", split="pool"),
    ),
    counter(
        "host_dropped_tokens",
        "tokens",
        "Tokens dropped for want of room on the host, by reason.",
        sglang=told("sglang:hicache_dropped_tokens", split="reason"),
    ),
    counter(
        "storage_prefetched_tokens",
        "tokens",
        "Tokens fetched ahead from storage.",
        sglang=told("sglang:prefetched_tokens"),
    ),
    counter("storage_backup_tokens", "tokens", "Tokens written to storage.", sglang=told("sglang:backuped_tokens")),
    counter(
        "storage_prefetch_hit_tokens",
        "tokens",
        "Tokens fetched ahead and then used.",
        sglang=told("sglang:storage_prefetch_hit_tokens"),
    ),
    counter(
        "storage_prefetch_unfulfilled",
        "tokens",
        "Tokens that fetching ahead did not bring, by reason.",
        sglang=told("sglang:storage_prefetch_unfulfilled_tokens", split="reason"),
    ),
    histogram("eviction_duration", "seconds", "Time of one eviction.", sglang=told("sglang:eviction_duration_seconds")),
    histogram(
        "load_back_duration",
        "seconds",
        "Time of one load from the host.",
        sglang=told("sglang:load_back_duration_seconds"),
    ),
    histogram(
        "host_backup_duration",
        "seconds",
        "Time of one copy to the host.",
        sglang=told("sglang:hicache_backup_duration_seconds"),
    ),
    counter(
        "kvbm_offload_blocks",
        "blocks",
        "Blocks that Dynamo's block manager moved to the host.",
        dynamo=told("dynamo:kvbm_offload_blocks_d2h"),
    ),
    counter(
        "kvbm_onboard_blocks",
        "blocks",
        "Blocks that it brought back from the host.",
        dynamo=told("dynamo:kvbm_onboard_blocks_h2d"),
    ),
    counter(
        "kvbm_offload_to_disk",
        "blocks",
        "Blocks that it moved to the disk, from the host or straight from the device.",
        dynamo=(
            Told((Term(("dynamo:kvbm_offload_blocks_h2d",)), Term(("dynamo:kvbm_offload_blocks_d2d",)))),
            *told("dynamo:kvbm_offload_blocks_h2d"),
            *told("dynamo:kvbm_offload_blocks_d2d"),
        ),
    ),
    counter(
        "kvbm_onboard_from_disk",
        "blocks",
        "Blocks that it brought back from the disk.",
        dynamo=told("dynamo:kvbm_onboard_blocks_d2d"),
    ),
    counter(
        "kvbm_matched_tokens",
        "tokens",
        "Tokens that it found beyond the device.",
        dynamo=told("dynamo:kvbm_matched_tokens"),
    ),
    gauge(
        "kvbm_host_hit_rate",
        "ratio",
        "max",
        "Its own figure of the host's hit rate.",
        dynamo=told("dynamo:kvbm_host_cache_hit_rate"),
    ),
    gauge(
        "kvbm_disk_hit_rate",
        "ratio",
        "max",
        "Its own figure of the disk's hit rate.",
        dynamo=told("dynamo:kvbm_disk_cache_hit_rate"),
    ),
)
