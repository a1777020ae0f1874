"""Runbooks of the rules about room for requests: preemptions, starvation, an engine that stands, a fleet askew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvxray_backend.alerts.runbook import Runbook

_PRIORITY: Final = (
    "Where priorities are used (`--scheduling-policy priority`), see whether one class starves the others."
)

ROOM_RUNBOOKS: Final[Mapping[str, Runbook]] = {
    "KVPreemptionStorm": Runbook(
        meaning="The batch holds more requests than the cache has room for. Each preempted one frees its blocks and "
        "computes prompt and answer so far again, which takes room and time from the rest.",
        confirm=(
            "Overview: **Preemptions**, per finished request: 0.08 is healthy, above 0.3 is this.",
            "Overview: **Cache in use**: near 100 %, and it stays there.",
            "Signals: **Queue and requests** (Preemptions): did it begin with more requests, or with longer ones? "
            "**Times and sizes of requests** tells their lengths.",
        ),
        on_vllm=(
            "Lower `--max-num-seqs` to what the cache has room for, or `--max-num-batched-tokens`; both take a "
            "restart. The router's limit for this engine takes none.",
            "Make room: `--kv-cache-dtype fp8` (about twice the blocks; check answers first), a higher "
            "`--gpu-memory-utilization`, a larger `--tensor-parallel-size`, or another replica.",
            _PRIORITY,
        ),
        on_sglang=("SGLang retracts where vLLM preempts, under other names: SGLangRetractionStorm tells it.",),
    ),
    "KVThrashSpiral": Runbook(
        meaning="Preemptions push cached prefixes out, what was pushed out must be computed again, and that takes the "
        "room of the next. Left alone it does not end before the load does.",
        confirm=(
            "Overview: **Preemptions**, per finished request, above 0.3.",
            "Overview: **Prefix hit rate by tier**: the half hour lies far below the day.",
            "Timelines: hit rate falls after preemptions rose. The other way round it is a changed prompt: "
            "KVHitRateCollapse.",
        ),
        on_vllm=(
            "Take load off this engine in the router first, and put it back slowly.",
            "Lower `--max-num-seqs` before it gets its load back.",
            "`POST /reset_prefix_cache` does not help: what is cached only makes room when room is needed.",
        ),
        on_sglang=("SGLang tells no preemptions of this kind: SGLangRetractionStorm, with SGLangHitRateCollapse.",),
    ),
    "KVStarved": Runbook(
        meaning="The cache itself is what requests wait for. Times to the first token grow with the queue, however "
        "fast the engine computes.",
        confirm=(
            "Overview: **Scheduler queue** (Waiting for capacity): above 0 all the time.",
            "Overview: **Cache in use**: above nine tenths. Where it is not, the batch is full and not the cache.",
            "Overview: **Leaks**, **Open findings**: blocks that nobody living needs would be the first to get back.",
        ),
        on_vllm=(
            "Add a replica, or bound what one request can take: `--max-model-len`, and `max_tokens` of requests.",
            "Make room: `--kv-cache-dtype fp8`, a higher `--gpu-memory-utilization`; `kvxray calc` says how many "
            "requests that holds.",
            "If usage is below nine tenths, raise `--max-num-seqs`: `capacity` counts places in the batch too.",
        ),
        on_sglang=(
            "SGLang does not say why requests wait, so this rule cannot be told of it. By hand: "
            "`sglang:num_queue_reqs` above 0 with `sglang:token_usage` above 0.9 is the same; raise "
            "`--mem-fraction-static`, or lower `--schedule-conservativeness` where usage stays below it.",
        ),
    ),
    "EngineNoProgress": Runbook(
        meaning="The scheduler took no step though it has work: a deadlock, a collective that waits for a lost rank, "
        "or a transfer that nobody picks up. Clients wait until their own timeout.",
        confirm=(
            "Signals: **Times and sizes of requests** (Iteration tokens): flat, while Requests running or waiting is "
            "above 0.",
            "Signals: **Queue and requests** (KV loads by stage): loads that completed and wait are requests parked "
            "outside both queues.",
            "Live: the newest event says what it did last; Fleet says whether it is this rank alone.",
        ),
        on_vllm=(
            "`py-spy dump --pid PID` of the API server, the engine core and every worker, before anything else.",
            "Keep its log. Where it waits for transfers, look at the other engine and at the network between them.",
            "Restart this rank. With data parallelism the others wait for it in collectives, so take all of the group.",
        ),
        on_sglang=(
            "SGLang tells no steps, so this rule cannot be told of it; SGLangEvictionStall sees the same for its pool. "
            "Its own watchdog (`--watchdog-timeout`, 300 s) writes stacks to the log and ends the process.",
        ),
    ),
    "KVFleetSkew": Runbook(
        meaning="There is room, and requests wait beside it: the router does not use it. One more replica would not "
        "help.",
        confirm=(
            "Overview: **Fleet** (In use, widest spread; fullest engine).",
            "Fleet: sort by In use. Compare Waiting and Hit rate of the fullest and the emptiest engine of the role.",
            "Signals: **Router**, where the router is attached: requests and affinity by engine.",
        ),
        on_vllm=(
            "llm-d: weigh `queue-scorer` and `kv-cache-utilization-scorer` against the prefix scorer; prefixes alone "
            "send everybody with one system prompt to one engine.",
            "Sticky sessions (`session` routing): bound them, or hash over more than the user.",
            "Give engines of different roles a `role` label; without it they are compared with each other.",
        ),
        on_sglang=(
            "This rule reads vLLM's metrics. SGLang's router: with `--policy cache_aware`, lower "
            "`--balance-abs-threshold` and `--balance-rel-threshold`, so that it balances sooner, or raise "
            "`--cache-threshold`.",
        ),
    ),
}
