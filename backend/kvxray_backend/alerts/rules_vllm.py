"""Rules over vLLM's metrics: room for requests, what a prefix cache brings, blocks that are held for nobody."""

from __future__ import annotations

from typing import Final

from kvxray_backend.alerts.expression import (
    All,
    AmongEngines,
    Awake,
    Before,
    Compare,
    Constant,
    ElseNothing,
    Grew,
    Grown,
    Highest,
    Lowest,
    Mean,
    Minus,
    Now,
    Over,
    Recorded,
    Still,
    Sum,
    Times,
    Total,
    UpFor,
    Vanished,
)
from kvxray_backend.alerts.rule import Rule

MINUTE: Final = 60
HOUR: Final = 3_600
DAY: Final = 86_400

HIT_RATIO: Final = Recorded(
    "hit:ratio30m",
    Over(Grown("prefix_hits", 30 * MINUTE), Grown("prefix_queries", 30 * MINUTE), more_than=50_000),
)
PREEMPTED: Final = Recorded(
    "preempt:per_finished10m",
    Over(Grown("preemptions", 10 * MINUTE), Grown("requests_finished", 10 * MINUTE), at_least=1),
)
_STORM: Final = Compare(PREEMPTED, ">", Constant(0.3), clear=Constant(0.2))
_RUNNING: Final = Now("requests_running")
_EVER: Final = Mean(HIT_RATIO, DAY, ago_s=HOUR)
_HOUR_AGO: Final = Before(HIT_RATIO, HOUR)

FLOOR: Final = Recorded("floor:usage1h", Lowest("kv_usage", HOUR))
_LEAST_RUNNING: Final = Recorded("floor:running1h", Lowest("requests_running", HOUR))
_RISEN: Final = (
    Minus(FLOOR, Before(FLOOR, HOUR)),
    Minus(Before(FLOOR, HOUR), Before(FLOOR, 2 * HOUR)),
)
"""From hour to hour, the last of them first."""

ROOM: Final[tuple[Rule, ...]] = (
    Rule(
        "KVPreemptionStorm",
        "warning",
        All((_STORM, Compare(Grown("preemptions", 10 * MINUTE), ">", Constant(20), clear=Constant(10)))),
        for_s=5 * MINUTE,
        keep_firing_s=10 * MINUTE,
        served_by=("vllm",),
        sentence="Requests take each other's blocks: more than three preemptions for every ten that finish, and each "
        "begins its prompt again.",
        do=(
            "Admit less at once: lower `--max-num-seqs`, or the router's limit for this engine.",
            "Find who asks for most: lengths of prompts and answers on Signals.",
            "Make more room: fp8 keys and values, a higher `--gpu-memory-utilization`, or another replica.",
        ),
        trap="`rate > 0` fires on every healthy engine: a busy one preempts about 8 for every 100 that finish. So does "
        "a share without a least number: three preemptions in a quiet night.",
    ),
    Rule(
        "KVThrashSpiral",
        "critical",
        All(
            (
                _STORM,
                Compare(HIT_RATIO, "<", Times(Constant(0.5), _HOUR_AGO), clear=Times(Constant(0.65), _HOUR_AGO)),
                Compare(_HOUR_AGO, ">", Constant(0.2)),
            )
        ),
        for_s=5 * MINUTE,
        served_by=("vllm",),
        sentence="The cache turns over faster than it helps: preemptions evict prefixes, and what was evicted is "
        "computed again in less room still.",
        do=(
            "Drain this engine in the router until preemptions end.",
            "Do not restart all engines at once: every cache would be cold, under the same load.",
            "Then as for KVPreemptionStorm: admit less, or make more room.",
        ),
        trap="A hit rate that fell is no spiral: a new prompt template does the same without one preemption. Older "
        "releases of vLLM look preempted requests up again, which lifts the rate on text that repeats nothing.",
    ),
    Rule(
        "KVStarved",
        "warning",
        All(
            (
                Compare(Lowest("requests_waiting_by_reason", 5 * MINUTE, "capacity"), ">", Constant(0)),
                Compare(Now("kv_usage"), ">", Constant(0.9), clear=Constant(0.8)),
            )
        ),
        for_s=10 * MINUTE,
        served_by=("vllm",),
        sentence="Requests wait for blocks: for ten minutes somebody was always waiting for capacity while requests "
        "hold more than nine tenths of the cache.",
        do=(
            "Add a replica, or shorten contexts and answers (`--max-model-len`, `max_tokens`).",
            "See whether blocks are held for nobody: findings of the engine, KVHeldWhileIdle.",
            "If the batch is what is full, and not the cache, raise `--max-num-seqs`.",
        ),
        trap="Usage over 0.9 alone is a full batch that nobody waits for. Waiting alone is an engine busy with prompts "
        "at a third of its cache. `capacity` also counts who waits for a place in the batch.",
    ),
    Rule(
        "EngineNoProgress",
        "critical",
        All(
            (
                Compare(
                    Sum(
                        (
                            _RUNNING,
                            Now("requests_waiting"),
                            ElseNothing(Now("kv_fetch_by_stage"), _RUNNING),
                        )
                    ),
                    ">",
                    Constant(0),
                ),
                Still("iteration_tokens", 3 * MINUTE),
                Awake(),
            )
        ),
        for_s=2 * MINUTE,
        served_by=("vllm",),
        sentence="The engine has requests and took no step for three minutes.",
        do=(
            "Take stacks of all its processes first (`py-spy dump --pid …`): a restart destroys them.",
            "Look at the last events on the page: what was it doing?",
            "Restart this rank alone.",
        ),
        trap="Waiting without running misses requests parked in neither queue, such as loads of blocks that ended and "
        "were not picked up. Counters of tokens stand still during one long prompt; steps do not.",
    ),
    Rule(
        "KVFleetSkew",
        "warning",
        All(
            (
                Compare(
                    Minus(AmongEngines("max", Now("kv_usage")), AmongEngines("min", Now("kv_usage"))),
                    ">",
                    Constant(0.5),
                    clear=Constant(0.35),
                ),
                Compare(AmongEngines("max", Now("requests_waiting")), ">", Constant(0)),
                Compare(AmongEngines("count", Now("kv_usage")), ">", Constant(1)),
            )
        ),
        for_s=15 * MINUTE,
        served_by=("vllm",),
        sentence="One engine is full and lets requests wait while another of the same model and role is half empty.",
        do=(
            "Look at the router: does it weigh queue and usage, or prefixes alone?",
            "Look for sessions that stick to one engine, and for one prompt that most traffic begins with.",
        ),
        trap="Engines for prompts and engines for answers are used differently by nature, so they are compared within "
        "one role (label `role`). A replica that is minutes old is empty, which the fifteen minutes allow for.",
    ),
)

REUSE: Final[tuple[Rule, ...]] = (
    Rule(
        "KVHitRateCollapse",
        "warning",
        All(
            (
                Compare(HIT_RATIO, "<", Times(Constant(0.5), _EVER), clear=Times(Constant(0.65), _EVER)),
                Compare(_EVER, ">", Constant(0.2)),
                UpFor(HOUR),
            )
        ),
        for_s=15 * MINUTE,
        served_by=("vllm",),
        sentence="Prefixes hit less than half as often as over the day before.",
        do=(
            "Ask what was deployed then: a date or an id at the beginning of a system prompt is enough.",
            "See the map of cached prefixes: which prompts part from which, and where.",
            "See whether the router changed how it chooses engines.",
        ),
        trap="A fixed threshold fires on workloads that never share. A restart is cold, not broken. A rate of next to "
        "no lookups says nothing, and the mean of rates of several engines is no rate.",
    ),
    Rule(
        "OffloadNotPaying",
        "warning",
        All(
            (
                Compare(
                    Grown("offload_load_time", HOUR),
                    ">",
                    Times(
                        Grown("external_prefix_hits", HOUR),
                        Over(Total("prefill_time", HOUR), Total("request_computed_tokens", HOUR), more_than=10_000),
                    ),
                ),
                Compare(Grown("offload_load_time", HOUR), ">", Constant(10), clear=Constant(5)),
            )
        ),
        for_s=15 * MINUTE,
        served_by=("vllm",),
        sentence="Bringing blocks back from the host takes longer than computing them again would.",
        do=(
            "See bandwidth and sizes of loads on Signals: small loads are slow ones; a larger offload block helps.",
            "Look for a NUMA node or a PCIe link that is not the GPU's own.",
            "Switch offloading off for this engine and compare times to the first token.",
        ),
        trap="A hit rate of the host's tier says that blocks were found, not that fetching them paid. What a token "
        "costs is measured here by requests' own prefill times, which count a shared batch once for each of them: the "
        "rule errs towards keeping the tier.",
    ),
)

HELD: Final[tuple[Rule, ...]] = (
    Rule(
        "KVHeldWhileIdle",
        "warning",
        All(
            (
                Compare(Lowest("kv_usage", 10 * MINUTE), ">", Constant(0.005)),
                Compare(Highest("requests_running", 10 * MINUTE), "==", Constant(0)),
                Compare(Highest("requests_waiting", 10 * MINUTE), "==", Constant(0)),
            )
        ),
        for_s=5 * MINUTE,
        served_by=("vllm",),
        sentence="Blocks are held though no request ran or waited for ten minutes.",
        do=(
            "Ask whether it hands blocks to other engines: a lease that never ends, a peer that died.",
            "See transfers on Signals: expired, failed.",
            "Where it grows from day to day, restart in a quiet hour and report it with a recording (`kvxray record`).",
        ),
        trap="An engine that hands blocks over may hold them for 480 seconds by design. An engine that is never idle "
        "never shows this: there the lowest usage rises instead.",
    ),
    Rule(
        "UsageFloorRising",
        "warning",
        All(
            (
                *(Compare(risen, ">", Constant(0.02), clear=Constant(0.01)) for risen in _RISEN),
                Compare(Minus(_LEAST_RUNNING, Before(_LEAST_RUNNING, 2 * HOUR)), "<", Constant(1)),
            )
        ),
        for_s=15 * MINUTE,
        served_by=("vllm", "sglang"),
        sentence="The lowest usage of each hour lies above that of the hour before, and no more requests run than then:"
        " blocks are lost.",
        do=(
            "Take the engine out of the router and let it run dry: what is still held then belongs to nobody.",
            "Look for requests that were cancelled or failed, and for transfers that were given up, since it began.",
            "Restart in a quiet hour and report it with a recording (`kvxray record`).",
        ),
        trap="Usage that rises is a morning: more requests run. So the lowest of each hour counts, and only where the "
        "lowest number of running requests did not rise with it. Conversations that grow for hours look the same.",
    ),
    Rule(
        "KVReadAfterExpiry",
        "critical",
        Grew("transfer_read_after_expiry", 15 * MINUTE),
        for_s=0,
        served_by=("vllm",),
        sentence="Blocks were read after they were let go: answers made from them may be wrong, with status 200.",
        do=(
            "Treat the answers of those minutes as suspect.",
            "Raise the lease (`VLLM_NIXL_ABORT_REQUEST_TIMEOUT`, `kv_lease_duration`) above the longest queue time of "
            "the engines that decode.",
            "Drain the slow engine that comes late.",
        ),
        trap="`increase()` of a counter that is born with 1 is 0, so the first and worst event would be lost.",
    ),
    Rule(
        "KVSeriesVanished",
        "warning",
        Vanished("kv_usage", 15 * MINUTE),
        for_s=5 * MINUTE,
        served_by=("vllm",),
        sentence="The engine answers, and no longer tells how full its cache is: other rules are blind.",
        do=(
            "Ask whether it was upgraded: metrics change names. kvxray knows the old ones and the new ones.",
            "See docs/signals.md for the names that are known; report a new one.",
        ),
        trap="`absent()` is silent as long as one engine still tells it. An engine that was taken down is no fault.",
    ),
)
