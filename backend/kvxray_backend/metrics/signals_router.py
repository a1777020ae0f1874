"""The signals of a router: what it sends where, what it takes for cached, and how its index of all caches follows them.

Those of llm-d's endpoint picker. Of names it had before it still tells both; today's counts.
"""

from __future__ import annotations

from typing import Final

from kvxray_backend.metrics.signal import Signal, counter, gauge, histogram, told

ROUTER: Final[tuple[Signal, ...]] = (
    counter(
        "router_requests",
        "requests",
        "Requests that came to the router.",
        router=told("llm_d_epp:request", "inference_objective:request", "inference_model:request"),
    ),
    counter(
        "router_errors",
        "requests",
        "Requests that ended in an error, by its code.",
        router=told(
            "llm_d_epp:request_error",
            "inference_objective:request_error",
            "inference_model:request_error",
            split="error_code",
        ),
    ),
    gauge(
        "router_running",
        "requests",
        "sum",
        "Requests under way.",
        router=told("llm_d_epp:request_running", "inference_objective:running_requests"),
    ),
    gauge(
        "router_ready_endpoints",
        "references",
        "sum",
        "Engines that the router may send to.",
        router=told("llm_d_epp:ready_endpoints", "inference_pool:ready_pods"),
    ),
    histogram(
        "router_ttft",
        "seconds",
        "Time to the first token, as the router sees it.",
        router=told("llm_d_epp:request_ttft_seconds", "inference_objective:request_ttft_seconds"),
    ),
    histogram(
        "router_duration",
        "seconds",
        "Time from arrival at the router to the end of the answer.",
        router=told(
            "llm_d_epp:request_duration_seconds",
            "inference_objective:request_duration_seconds",
            "inference_model:request_duration_seconds",
        ),
    ),
    histogram(
        "router_input_tokens",
        "tokens",
        "Tokens of prompts, as engines told them back.",
        router=told(
            "llm_d_epp:request_input_tokens", "inference_objective:input_tokens", "inference_model:input_tokens"
        ),
    ),
    histogram(
        "router_cached_tokens",
        "tokens",
        "Tokens of prompts that came from a cache, as engines told them back.",
        router=told("llm_d_epp:request_cached_tokens"),
    ),
    histogram(
        "router_prompt_tokens",
        "tokens",
        "Tokens of prompts that the router looked for in its picture of the caches.",
        router=told("llm_d_epp:prefix_prompt_tokens"),
    ),
    histogram(
        "router_predicted_tokens",
        "tokens",
        "Tokens of them that it took for cached where it sent the request.",
        router=told("llm_d_epp:prefix_predicted_cached_tokens"),
    ),
    histogram(
        "router_best_tokens",
        "tokens",
        "Tokens of them that it took for cached at the engine that had most of them, wherever it sent the request.",
        router=told("llm_d_epp:prefix_best_available_cached_tokens"),
    ),
)

INDEX: Final[tuple[Signal, ...]] = (
    counter(
        "index_lookups",
        "requests",
        "Prompts looked up in the index.",
        router=told("llm_d_epp:kv_cache_index_lookup_requests", "kvcache:index_lookup_requests"),
    ),
    counter(
        "index_hits",
        "blocks",
        "Blocks of them that some engine was known to have.",
        router=told("llm_d_epp:kv_cache_index_lookup_hits", "kvcache:index_lookup_hits"),
    ),
    counter(
        "index_admissions",
        "blocks",
        "Blocks that came into the index.",
        router=told("llm_d_epp:kv_cache_index_admissions", "kvcache:index_admissions"),
    ),
    counter(
        "index_evictions",
        "blocks",
        "Blocks that left the index.",
        router=told("llm_d_epp:kv_cache_index_evictions", "kvcache:index_evictions"),
    ),
    histogram(
        "index_lookup_time",
        "seconds",
        "Time of one look-up.",
        router=told("llm_d_epp:kv_cache_index_lookup_latency_seconds", "kvcache:index_lookup_latency_seconds"),
    ),
    gauge(
        "index_subscribers",
        "references",
        "sum",
        "Engines whose events the router follows, or tries to.",
        router=told("llm_d_epp:kv_cache_events_active_subscribers", "kvcache:kvevents_active_subscribers"),
    ),
    counter(
        "index_messages",
        "references",
        "Messages of events that came, by engine.",
        router=told(
            "llm_d_epp:kv_cache_events_messages_received",
            "kvcache:kvevents_messages_received",
            split="pod_identifier",
        ),
    ),
    counter(
        "index_reconnects",
        "references",
        "Times that it dialled an engine again, by engine.",
        router=told(
            "llm_d_epp:kv_cache_events_subscriber_reconnections",
            "kvcache:kvevents_subscriber_reconnections",
            split="pod_identifier",
        ),
    ),
    counter(
        "index_socket_errors",
        "references",
        "Errors of its sockets, by what it was doing.",
        router=told("llm_d_epp:kv_cache_events_zmq_errors", "kvcache:kvevents_zmq_errors", split="operation"),
    ),
    gauge(
        "index_backlog",
        "references",
        "sum",
        "Messages that wait to be taken into the index.",
        router=told("llm_d_epp:kv_cache_events_pool_queue_depth", "kvcache:kvevents_pool_queue_depth"),
    ),
    counter(
        "index_removals_suppressed",
        "blocks",
        "Removals that the router left out, since another copy stays.",
        router=told(
            "llm_d_epp:kv_cache_events_dedup_removed_hashes_suppressed",
            "kvcache:kvevents_dedup_removed_hashes_suppressed",
        ),
    ),
    counter(
        "index_removals_forwarded",
        "blocks",
        "Removals that it took into the index.",
        router=told(
            "llm_d_epp:kv_cache_events_dedup_removed_hashes_forwarded",
            "kvcache:kvevents_dedup_removed_hashes_forwarded",
        ),
    ),
    counter(
        "index_stores_skipped",
        "references",
        "Stores that the router left out of its index, by why.",
        router=told("llm_d_epp:kv_cache_events_stores_skipped", split="reason"),
    ),
    counter(
        "index_removals_skipped",
        "references",
        "Removals that it left out, by why.",
        router=told("llm_d_epp:kv_cache_events_removals_skipped", split="reason"),
    ),
)
