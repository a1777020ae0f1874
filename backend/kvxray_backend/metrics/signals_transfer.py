"""The signals of what engines share: transfers between them, and LMCache's store."""

from __future__ import annotations

from typing import Final

from kvxray_backend.metrics.signal import Signal, counter, gauge, histogram, told

TRANSFER: Final[tuple[Signal, ...]] = (
    histogram(
        "transfer_time",
        "seconds",
        "Time of one transfer between engines (NIXL).",
        vllm=told("vllm:nixl_xfer_time_seconds"),
    ),
    histogram(
        "transfer_post_time",
        "seconds",
        "Time to hand one transfer to the network.",
        vllm=told("vllm:nixl_post_time_seconds"),
    ),
    histogram("transfer_bytes", "bytes", "Size of one transfer.", vllm=told("vllm:nixl_bytes_transferred")),
    histogram("transfer_descriptors", "references", "Pieces of one transfer.", vllm=told("vllm:nixl_num_descriptors")),
    counter("transfer_failures", "requests", "Transfers that failed.", vllm=told("vllm:nixl_num_failed_transfers")),
    counter(
        "transfer_notification_failures",
        "requests",
        "Notifications that failed.",
        vllm=told("vllm:nixl_num_failed_notifications"),
    ),
    counter(
        "transfer_expired",
        "requests",
        "Requests whose blocks were let go before anybody fetched them.",
        vllm=told("vllm:nixl_num_kv_expired_reqs"),
    ),
    counter(
        "transfer_read_after_expiry",
        "requests",
        "Blocks fetched after they were let go: answers made from them are suspect. The very first one counts.",
        vllm=told("vllm:nixl_num_notifications_after_expiry"),
    ),
)

LMCACHE: Final[tuple[Signal, ...]] = (
    counter(
        "lmcache_requested_tokens",
        "tokens",
        "Tokens that LMCache was asked to bring.",
        lmcache=told("lmcache:num_requested_tokens"),
    ),
    counter("lmcache_hit_tokens", "tokens", "Tokens of them that it had.", lmcache=told("lmcache:num_hit_tokens")),
    histogram(
        "lmcache_retrieve_speed",
        "per_second",
        "Tokens a second of one retrieval.",
        lmcache=told("lmcache:retrieve_speed"),
    ),
    histogram("lmcache_retrieve_time", "seconds", "Time of one retrieval.", lmcache=told("lmcache:time_to_retrieve")),
    gauge(
        "lmcache_local_bytes",
        "bytes",
        "sum",
        "Bytes in LMCache's local memory.",
        lmcache=told("lmcache:local_cache_usage"),
    ),
    gauge(
        "lmcache_remote_bytes",
        "bytes",
        "sum",
        "Bytes in LMCache's remote store.",
        lmcache=told("lmcache:remote_cache_usage"),
    ),
    gauge(
        "lmcache_pinned_objects",
        "references",
        "sum",
        "Objects pinned in LMCache; one that only rises is a leak.",
        lmcache=told("lmcache:pinned_memory_objs_count"),
    ),
    counter("lmcache_stored_tokens", "tokens", "Tokens stored in LMCache.", lmcache=told("lmcache:num_stored_tokens")),
    counter(
        "lmcache_evictions",
        "blocks",
        "Chunks that LMCache evicted from local memory.",
        lmcache=told("lmcache:local_cpu_evict_keys_count", "lmcache_mp:l1_evicted"),
    ),
    counter(
        "lmcache_evict_failures",
        "blocks",
        "Evictions that found nothing to evict: all is pinned.",
        lmcache=told("lmcache:local_cpu_evict_failed_count"),
    ),
    counter(
        "lmcache_forced_unpins",
        "references",
        "Pins that LMCache took back from who forgot them.",
        lmcache=told("lmcache:forced_unpin_count"),
    ),
)
