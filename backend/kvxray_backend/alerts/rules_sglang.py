"""Rules over SGLang's metrics: retractions, pools that stall or do not add up, the host's tier."""

from __future__ import annotations

from typing import Final

from kvxray_backend.alerts.expression import (
    Absolute,
    All,
    Compare,
    Constant,
    ElseNothing,
    Grown,
    Highest,
    Mean,
    Minus,
    Now,
    Still,
    Sum,
    Times,
)
from kvxray_backend.alerts.rule import Rule
from kvxray_backend.alerts.rules_vllm import DAY, HIT_RATIO, HOUR, MINUTE

_CAPACITY: Final = Now("kv_capacity_tokens")
_AVAILABLE: Final = Now("kv_available_tokens")
_EVICTABLE: Final = Now("kv_evictable_tokens")
_RUNNING: Final = Now("requests_running")
_EVER: Final = Mean(HIT_RATIO, DAY, ago_s=HOUR)

SGLANG: Final[tuple[Rule, ...]] = (
    Rule(
        "SGLangRetractionStorm",
        "warning",
        All(
            (
                Compare(Grown("preemptions", 10 * MINUTE), ">", Constant(10), clear=Constant(5)),
                Compare(Highest("kv_usage", 10 * MINUTE), ">", Constant(0.95), clear=Constant(0.9)),
            )
        ),
        for_s=5 * MINUTE,
        served_by=("sglang",),
        sentence="Requests are taken out of a full batch again and again, and begin anew.",
        do=(
            "Raise `--schedule-conservativeness`, or bound the length of answers.",
            "Watch tokens a second afterwards: an engine may come out of a storm slow and stay so; restart it then.",
        ),
        trap="Ranks of one engine each count the same retraction: their sum is several times too high. The gauge of "
        "retracted requests is overwritten at each step and shows almost none.",
    ),
    Rule(
        "SGLangEvictionStall",
        "critical",
        All(
            (
                Compare(_AVAILABLE, "<", Times(Constant(0.01), _CAPACITY)),
                Compare(_EVICTABLE, ">", Times(Constant(0.3), _CAPACITY)),
                Compare(Sum((_RUNNING, Now("requests_waiting"))), ">", Constant(0)),
                Still("generated_tokens", 2 * MINUTE),
                Compare(
                    ElseNothing(Grown("prompt_tokens_by_source", 2 * MINUTE), _RUNNING),
                    "==",
                    Constant(0),
                ),
            )
        ),
        for_s=MINUTE,
        served_by=("sglang",),
        sentence="The engine has work and a cache it could evict from, and computed no token for two minutes.",
        do=(
            "Take stacks of all its processes at once (`py-spy dump --pid …`): its watchdog ends it after 300 seconds.",
            "Keep its log and, where events are on, a recording.",
            "Take it out of the router until it is back.",
        ),
        trap="Nothing available is the normal state of a warm cache: what is only cached makes room when it is needed. "
        "Usage shows a few per cent meanwhile, since it counts what requests hold.",
    ),
    Rule(
        "SGLangPoolResidual",
        "warning",
        All(
            (
                Compare(
                    Absolute(Minus(Minus(Minus(_CAPACITY, _AVAILABLE), _EVICTABLE), Now("kv_used_tokens"))),
                    ">",
                    Constant(0),
                ),
                Compare(Highest("requests_running", 2 * MINUTE), "==", Constant(0)),
            )
        ),
        for_s=3 * MINUTE,
        served_by=("sglang",),
        sentence="Tokens of an idle pool are neither available, nor evictable, nor used: they are lost to it.",
        do=(
            "Note the sign: more capacity than its parts is a leak, less is something counted twice.",
            "Save a recording of its events (`kvxray record`) before you restart it.",
            "Watch whether it grows with aborted requests.",
        ),
        trap="Under load the gauges are of different moments and never add up; only an idle engine tells. Tokens that "
        "sessions keep belong to no request and may show here.",
    ),
    Rule(
        "SGLangHitRateCollapse",
        "warning",
        All(
            (
                Compare(HIT_RATIO, "<", Times(Constant(0.5), _EVER), clear=Times(Constant(0.65), _EVER)),
                Compare(_EVER, ">", Constant(0.2)),
            )
        ),
        for_s=15 * MINUTE,
        served_by=("sglang",),
        sentence="Prefixes hit less than half as often as over the day before, in all tiers together.",
        do=(
            "Ask what was deployed then: a date or an id at the beginning of a system prompt is enough.",
            "See the map of cached prefixes: which prompts part from which, and where.",
        ),
        trap="The gauge `sglang:cache_hit_rate` is of the last batch. Hits that move from the device to the host are "
        "no loss of hits, so all tiers count together.",
    ),
    Rule(
        "HiCacheDropping",
        "info",
        All(
            (
                Compare(Grown("host_dropped_tokens", 10 * MINUTE), ">", Constant(0)),
                Compare(Grown("host_load_back_tokens", HOUR), ">", Constant(0)),
            )
        ),
        for_s=15 * MINUTE,
        served_by=("sglang",),
        sentence="The host's tier drops tokens for want of room, while requests do bring tokens back from it.",
        do=(
            "Give it more memory (`--hicache-ratio`, `--hicache-size`), or write back instead of through.",
            "See how much of what is dropped comes back: hits by tier on Signals.",
        ),
        trap="A full host tier is its normal state under write-through; dropping what nobody fetches costs nothing.",
    ),
)
