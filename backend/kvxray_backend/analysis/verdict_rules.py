"""The rules of the verdict: each looks at the signs of one source and says what is wrong, or nothing. Pure.

Thresholds are those that operators alert on where there are such; where a page that somebody looks at may say it
earlier than an alert may wake somebody, the window is shorter and the rule says so. What is not known never fires.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kvxray_backend.analysis.verdict_signs import Signs, Trouble, counted, lasting, percent

Rule = Callable[[Signs], Trouble | None]

STORM_PER_FINISHED: Final = 0.3
STORM_AT_LEAST: Final = 20
FULL: Final = 0.9
COLLAPSED: Final = 0.5
WORTH_LOSING: Final = 0.2
TOKENS_TO_JUDGE: Final = 50_000
NO_PROGRESS_S: Final = 180
HELD_IDLE_S: Final = 600
HELD_IDLE: Final = 0.005
SLOWER: Final = 2.0
SLOW_S: Final = 0.2
FIRST_TOKENS_TO_JUDGE: Final = 20

_ADMIT_LESS: Final = "Admit fewer requests at once, shorten contexts, or give the cache more blocks."


def leak(signs: Signs) -> Trouble | None:
    """Blocks held for requests that ended: the pool shrinks until nothing fits. Exact, so one is enough (reported of
    vLLM as #29906 and of SGLang as #6778).
    """
    held = signs.value("leaked_by_requests")
    if not held:
        return None
    lost = signs.value("lost_to_requests")
    alone = (
        f"nobody else can use {'it' if held == lost == 1 else f'{lost:,.0f} of them'}"
        if lost
        else "others use them too"
    )
    verb = "is" if held == 1 else "are"
    return Trouble(
        "leak",
        "critical" if lost else "warning",
        "kv",
        f"KV: {counted(held, 'block')} {verb} still held for requests that have ended; {alone}.",
        "Look who holds them; only a restart of the engine gives them back.",
        ("leaked", "leaked_only", "used"),
    )


def expired_lease(signs: Signs) -> Trouble | None:
    """A lease keeps blocks for whoever is to fetch them; past its deadline the transfer is lost and the blocks are
    still held (vLLM holds them for 480 s, #38027).
    """
    leases = signs.value("expired_leases")
    if not leases:
        return None
    holds = "is past its deadline and still holds" if leases == 1 else "are past their deadline and still hold"
    return Trouble(
        "expired_lease",
        "warning",
        "transfer",
        f"Transfer: {counted(leases, 'lease')} {holds} blocks that nobody fetched.",
        "Look at the peer that should have fetched them, and at the network between.",
        ("expired_leases", "leaked"),
    )


def no_progress(signs: Signs) -> Trouble | None:
    """Requests are there, the engine is heard, and no step is told for three minutes: no prefill takes that long, and
    a queue alone says nothing (vLLM #45388: requests parked in neither queue).
    """
    told = signs.values("running", "waiting", "silent_s")
    if told is None or not told[0] + told[1] or told[2] < NO_PROGRESS_S:
        return None
    running, waiting, silent = told
    return Trouble(
        "no_progress",
        "critical",
        "compute",
        f"Compute: {running:,.0f} running and {waiting:,.0f} waiting, and no step for {lasting(silent)}.",
        "Look where the engine's process is stuck (py-spy dump), then restart it.",
        ("running", "waiting", "silent_s"),
    )


def admission_stuck(signs: Signs) -> Trouble | None:
    """Requests wait and nothing has run for half a minute, though the engine lives: nothing that ends will free
    anything. What the first one needs says whether it is the cache.
    """
    found = signs.finding("admission_stuck")
    if found is None:
        return None
    is_kv = found.numbers.get("needed_blocks", 0) > found.numbers.get("free_blocks", 0)
    return Trouble(
        "admission_stuck",
        "critical",
        "kv" if is_kv else "queue",
        f"{'KV' if is_kv else 'Queue'}: {found.sentence}",
        "Look who holds the blocks, or whether the prompt can ever fit." if is_kv else "Look why nothing is admitted.",
        ("waiting", "running", "used"),
    )


def preemption_loop(signs: Signs) -> Trouble | None:
    """A request that is pushed out again before it has got a single token on: it costs others and gets nowhere."""
    found = signs.finding("preemption_loop")
    if found is None:
        return None
    evidence = ("preemptions_10m", "running", "used")
    return Trouble("preemption_loop", "warning", "kv", f"KV: {found.sentence}", _ADMIT_LESS, evidence)


def thrash(signs: Signs) -> Trouble | None:
    """A storm of preemptions that also costs the hits: what is pushed out is computed again and pushes out more. Hits
    alone say nothing: what is preempted may be queried twice, or not counted, as the engine's version has it.
    """
    hits = signs.values("hit_rate_30m", "hit_rate_before")
    if preemption_storm(signs) is None or hits is None:
        return None
    if hits[1] <= WORTH_LOSING or hits[0] >= COLLAPSED * hits[1]:
        return None
    return Trouble(
        "thrash",
        "critical",
        "kv",
        f"KV: the cache thrashes: requests push each other out, and hits fell from {percent(hits[1])} to "
        f"{percent(hits[0])} within the hour.",
        "Send this engine less until it has settled; do not restart all at once.",
        ("preemptions_per_finished", "preemptions_10m", "hit_rate_30m", "hit_rate_before"),
    )


def preemption_storm(signs: Signs) -> Trouble | None:
    """More than 0.3 preemptions a finished request and more than 20 within ten minutes. Any at all would be wrong:
    under healthy load 0.08 a finished request were measured (1,538 for 19,801).
    """
    told = signs.values("preemptions_10m", "finished_10m")
    if told is None or told[0] <= STORM_AT_LEAST or told[0] <= STORM_PER_FINISHED * told[1]:
        return None
    return Trouble(
        "preemption_storm",
        "warning",
        "kv",
        f"KV: requests push each other out: {counted(told[0], 'preemption')} for {told[1]:,.0f} finished in 10 min.",
        _ADMIT_LESS,
        ("preemptions_per_finished", "preemptions_10m", "finished_10m", "used"),
    )


def waiting_line(signs: Signs) -> Trouble | None:
    """Somebody waits without a pause: for blocks if the cache was full all the while, for a place in the batch if it
    never was (a queue grew while 32 % were used: llm-d autoscaling #662). A full cache alone is a happy batch. Alerts
    wait for ten minutes of it; a page that somebody looks at says it after one.
    """
    told = signs.values("waiting_low", "used_low", "used_high")
    if told is None or told[0] < 1:
        return None
    _, low, high = told
    waited = "prompts have waited for a minute without a pause"
    evidence = ("waiting", "oldest_wait_s", "used_low", "used_high")
    if low >= FULL:
        sentence = f"KV: {waited}, and at least {percent(low)} of the cache was in use."
        return Trouble("starved", "warning", "kv", sentence, _ADMIT_LESS, evidence)
    if high < FULL:
        sentence = f"Queue: {waited}, though at most {percent(high)} of the cache was in use."
        advice = "The batch or the step's token budget is full, not the cache: raise them, or add an engine."
        return Trouble("queued", "warning", "queue", sentence, advice, evidence)
    sentence = (
        f"P{waited[1:]}; the cache was full for a part of it only, so it cannot be told whether for blocks or for a "
        "place in the batch."
    )
    return Trouble("waiting", "warning", None, sentence, "Look at the timelines of both.", evidence)


def hit_collapse(signs: Signs) -> Trouble | None:
    """Half an hour's hits below half of the engine's own day. A fixed threshold would fire on work that never shares; a
    restart, too few tokens and less than an hour of history are no reason.
    """
    told = signs.values("hit_rate_30m", "hit_rate_day", "queried_30m", "watched_s")
    if told is None or told[1] <= WORTH_LOSING or told[0] >= COLLAPSED * told[1]:
        return None
    if told[2] <= TOKENS_TO_JUDGE or told[3] < 3600:
        return None
    return Trouble(
        "hit_collapse",
        "warning",
        "kv",
        f"KV: the hit rate fell to {percent(told[0])}, less than half of what this engine had ({percent(told[1])}).",
        "Compare prompts and releases: something changed near the beginning of the prompts, or where they are sent.",
        ("hit_rate_30m", "hit_rate_day", "queried_30m"),
    )


def slower(signs: Signs) -> Trouble | None:
    """First tokens take twice what they took in the hour before. What most of it went to says why: waiting, for blocks
    where the cache was full, or computing. The factor is our judgement: operators compare with the engine's own past.
    """
    told = signs.values(
        "ttft_5m_s", "ttft_hour_s", "first_tokens_5m", "first_tokens_hour", "queue_p50_s", "prefill_p50_s"
    )
    if told is None or told[0] < SLOW_S or told[0] < SLOWER * told[1]:
        return None
    if min(told[2], told[3]) < FIRST_TOKENS_TO_JUDGE:
        return None
    before = f"{lasting(told[1])} in the hour before"
    evidence = ("ttft_5m_s", "ttft_hour_s", "queue_p50_s", "prefill_p50_s")
    if told[5] >= told[4]:
        sentence = f"Compute: first tokens take {lasting(told[0])} ({before}), most of it for computing the prompt."
        advice = "Prompts are longer, hit less, or more run at once: look at hit rate and running requests."
        return Trouble("slower", "warning", "compute", sentence, advice, evidence)
    is_full = (signs.value("used_low") or 0) >= FULL
    who, what = ("KV", "blocks") if is_full else ("Queue", "a place in the batch")
    sentence = f"{who}: first tokens take {lasting(told[0])} ({before}), most of it waiting for {what}."
    advice = _ADMIT_LESS if is_full else "Raise the limits of the batch, or add an engine."
    return Trouble("slower", "warning", "kv" if is_full else "queue", sentence, advice, (*evidence, "used_low"))


def held_idle(signs: Signs) -> Trouble | None:
    """Blocks are held though nothing has run for ten minutes: pins, leases or a connector. No leak, since nobody is
    known to have ended; below 0.5 % it is noise.
    """
    told = signs.values("used", "running", "waiting", "silent_s")
    if told is None or told[0] <= HELD_IDLE or told[1] or told[2] or told[3] < HELD_IDLE_S:
        return None
    if signs.value("leaked"):
        return None
    return Trouble(
        "held_idle",
        "warning",
        "kv",
        f"KV: {percent(told[0])} of the cache is held though nothing has run for {lasting(told[3])}.",
        "Look who holds the blocks: pins and leases are listed as holders.",
        ("used", "running", "silent_s"),
    )


RULES: Final[tuple[Rule, ...]] = (
    leak,
    admission_stuck,
    no_progress,
    thrash,
    expired_lease,
    preemption_loop,
    preemption_storm,
    waiting_line,
    hit_collapse,
    slower,
    held_idle,
)
"""In this order where several are equally bad."""


@dataclass(frozen=True, slots=True)
class Need:
    """Figures that a rule cannot do without, and what is not judged where one of them has no value. `is_of_work`: it is
    no matter while nothing runs and nobody waits.
    """

    figures: tuple[str, ...]
    not_judged: str
    is_of_work: bool = True


NEEDS: Final = (
    Need(("transfers",), "transfers between engines or tiers: this source tells of none", is_of_work=False),
    Need(("waiting_low",), "whether prompts wait without a pause: that takes a minute of events"),
    Need(("preemptions_10m",), "preemptions for each finished request: nothing is stored of the last 10 minutes"),
    Need(("ttft_5m_s", "ttft_hour_s"), "first tokens against the hour before: none are known of it"),
    Need(("hit_rate_day",), "the hit rate against the engine's own day: it takes an hour with prompts"),
)
