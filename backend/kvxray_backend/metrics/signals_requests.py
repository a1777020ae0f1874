"""The signals of the scheduler and of requests: who waits and why, who was preempted, how long things took."""

from __future__ import annotations

from typing import Final

from kvxray_backend.metrics.signal import Signal, counter, gauge, histogram, told

QUEUE: Final[tuple[Signal, ...]] = (
    gauge(
        "requests_running",
        "requests",
        "sum",
        "Requests in the batch.",
        vllm=told("vllm:num_requests_running"),
        sglang=told("sglang:num_running_reqs"),
        trtllm=told("trtllm:num_requests_running"),
        dynamo=told("dynamo:frontend_inflight_requests"),
    ),
    gauge(
        "requests_waiting",
        "requests",
        "sum",
        "Requests that wait for the scheduler.",
        vllm=told("vllm:num_requests_waiting"),
        sglang=told("sglang:num_queue_reqs"),
        trtllm=told("trtllm:num_requests_waiting"),
        dynamo=told("dynamo:frontend_queued_requests"),
    ),
    gauge(
        "requests_waiting_by_reason",
        "requests",
        "sum",
        "The same by reason: capacity (no blocks, or the batch is full) and deferred (an adapter, a transfer).",
        vllm=told("vllm:num_requests_waiting_by_reason", split="reason"),
    ),
    gauge(
        "requests_swapped",
        "requests",
        "sum",
        "Requests whose blocks are on the host; engines of old.",
        vllm=told("vllm:num_requests_swapped"),
    ),
    gauge(
        "kv_fetch_by_stage",
        "requests",
        "sum",
        "Requests that wait for blocks from elsewhere: waiting_to_start, in_progress, completed_waiting.",
        vllm=told("vllm:num_requests_kv_fetch_by_stage", split="stage"),
    ),
    gauge(
        "requests_retracted",
        "requests",
        "sum",
        "Requests taken out of the batch last; overwritten, so never count it.",
        sglang=told("sglang:num_retracted_reqs"),
    ),
    gauge(
        "requests_paused",
        "requests",
        "sum",
        "Requests that wait for new weights.",
        sglang=told("sglang:num_paused_reqs"),
    ),
    gauge(
        "sleep_state",
        "ratio",
        "max",
        "1 for what the engine is: awake, weights_offloaded, discard_all. One that sleeps tells nothing.",
        vllm=told("vllm:engine_sleep_state", split="sleep_state"),
    ),
    counter(
        "preemptions",
        "requests",
        "Times that a request lost its blocks to another and had to begin again.",
        vllm=told("vllm:num_preemptions"),
        sglang=told("sglang:num_retracted_requests"),
    ),
    counter(
        "requests_finished",
        "requests",
        "Requests that ended, by how: stop, length, abort, error.",
        vllm=told("vllm:request_success", split="finished_reason"),
        sglang=told("sglang:num_requests"),
        trtllm=told("trtllm:request_success", split="finished_reason"),
    ),
    counter(
        "requests_aborted",
        "requests",
        "Requests that were given up.",
        sglang=told("sglang:num_aborted_requests"),
        vllm=told("vllm:request_success", finished_reason=("abort",)),
    ),
    counter(
        "admission_rejections",
        "requests",
        "Requests refused at the door, by the limit they met.",
        vllm=told("vllm:admission_rejections", split="reason"),
    ),
    counter(
        "generated_tokens",
        "tokens",
        "Tokens generated.",
        vllm=told("vllm:generation_tokens"),
        sglang=(*told("sglang:realtime_tokens", mode=("decode",)), *told("sglang:generation_tokens")),
    ),
)

LATENCY: Final[tuple[Signal, ...]] = (
    histogram(
        "ttft",
        "seconds",
        "Time to the first token.",
        vllm=told("vllm:time_to_first_token_seconds"),
        sglang=told("sglang:time_to_first_token_seconds"),
        trtllm=told("trtllm:time_to_first_token_seconds"),
        dynamo=told("dynamo:frontend_time_to_first_token_seconds"),
    ),
    histogram(
        "inter_token_latency",
        "seconds",
        "Time between two tokens.",
        vllm=told("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
        sglang=told("sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds"),
        dynamo=told("dynamo:frontend_inter_token_latency_seconds"),
    ),
    histogram(
        "time_per_output_token",
        "seconds",
        "Mean time a token of each request.",
        vllm=told("vllm:request_time_per_output_token_seconds"),
        trtllm=told("trtllm:time_per_output_token_seconds"),
    ),
    histogram(
        "queue_time",
        "seconds",
        "Time that requests waited before they were first scheduled.",
        vllm=told("vllm:request_queue_time_seconds"),
        sglang=told("sglang:queue_time_seconds"),
        trtllm=told("trtllm:request_queue_time_seconds"),
    ),
    histogram(
        "prefill_time", "seconds", "Time of the prompt, by request.", vllm=told("vllm:request_prefill_time_seconds")
    ),
    histogram(
        "decode_time", "seconds", "Time of the answer, by request.", vllm=told("vllm:request_decode_time_seconds")
    ),
    histogram(
        "inference_time", "seconds", "Time in the batch, by request.", vllm=told("vllm:request_inference_time_seconds")
    ),
    histogram(
        "e2e_latency",
        "seconds",
        "Time from arrival to the last token.",
        vllm=told("vllm:e2e_request_latency_seconds"),
        sglang=told("sglang:e2e_request_latency_seconds"),
        trtllm=told("trtllm:e2e_request_latency_seconds"),
        dynamo=told("dynamo:frontend_request_duration_seconds"),
    ),
    histogram(
        "iteration_tokens",
        "tokens",
        "Tokens of one step; its count is the number of steps.",
        vllm=told("vllm:iteration_tokens_total"),
    ),
    histogram(
        "request_prompt_tokens",
        "tokens",
        "Length of prompts.",
        vllm=told("vllm:request_prompt_tokens"),
        sglang=told("sglang:prompt_tokens_histogram"),
    ),
    histogram(
        "request_generated_tokens",
        "tokens",
        "Length of answers.",
        vllm=told("vllm:request_generation_tokens"),
        sglang=told("sglang:generation_tokens_histogram"),
    ),
    histogram(
        "request_computed_tokens",
        "tokens",
        "Prompt tokens that a request had to compute.",
        vllm=told("vllm:request_prefill_kv_computed_tokens"),
    ),
    histogram(
        "request_preemptions", "requests", "Preemptions of each request.", vllm=told("vllm:request_num_preemptions")
    ),
)

BLOCK_LIFE: Final[tuple[Signal, ...]] = (
    histogram(
        "block_lifetime",
        "seconds",
        "From allocation to eviction, of a sample of blocks (`--kv-cache-metrics`; one in a hundred).",
        vllm=told("vllm:kv_block_lifetime_seconds"),
        lmcache=told("lmcache:request_cache_lifespan", "lmcache_mp:l1_chunk_lifetime"),
    ),
    histogram(
        "block_idle_before_evict",
        "seconds",
        "From the last use to eviction, of the same sample.",
        vllm=told("vllm:kv_block_idle_before_evict_seconds"),
        lmcache=told("lmcache_mp:l1_chunk_idle_before_evict"),
    ),
    histogram(
        "block_reuse_gap",
        "seconds",
        "Between two uses of a block, of the same sample.",
        vllm=told("vllm:kv_block_reuse_gap_seconds"),
        lmcache=told("lmcache_mp:l1_chunk_reuse_gap"),
    ),
)
