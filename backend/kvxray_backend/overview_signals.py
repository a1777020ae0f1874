"""The figures of the overview that the metrics of an engine, or of a router, tell: under the names and over the windows
that the overview uses for all. What is not told has no value and is not observable; what is told and has no data now
has no value either, but could.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kvxray_backend.figure import Figure, Unit
from kvxray_backend.metrics.histograms import Buckets, mean
from kvxray_backend.metrics.hit_rates import hit_rate
from kvxray_backend.metrics.past_book import PastBook
from kvxray_backend.metrics.signals import SIGNALS
from kvxray_backend.metrics.telling import Telling
from kvxray_backend.sources.foreign.metrics_watch import MetricsWatch

MINUTE_S: Final = 60.0
FIVE_MINUTES_S: Final = 300.0
TEN_MINUTES_S: Final = 600.0
HALF_HOUR_S: Final = 1_800.0
HOUR_S: Final = 3_600.0
STALE_AFTER_S: Final = 20.0

HOST: Final = ("host", "host_hit", "cpu")
BEYOND: Final = ("disk", "storage", "storage_hit", "p2p", "external_unspecified")
"""Parts of `prompt_tokens_by_source` and `cached_prompt_tokens_by_tier`, as engines call them."""

Value = float | None
Read = Callable[[Telling], Value]
Points = list[tuple[float, float]]
Choose = Callable[[list[float]], float]


@dataclass(frozen=True, slots=True)
class _Made:
    """`of`: the signals any of which must be told, else it is not observable."""

    unit: Unit
    of: tuple[str, ...]
    read: Read


def figures(watch: MetricsWatch, now_s: float | None = None, stale_after_s: float = STALE_AFTER_S) -> dict[str, Figure]:
    """Call with the engine's lock held. now_s: Unix seconds; None: of when metrics were read last. What was read longer
    ago than `stale_after_s` tells nothing of now.
    """
    book = watch.book
    is_old = now_s is not None and book.is_stale(now_s, stale_after_s)
    return {name: _figure(book, made, is_old=is_old) for name, made in FIGURES.items()}


def figures_of_past(book: PastBook) -> dict[str, Figure]:
    """The same as of the last reading of a past."""
    return {name: _figure(book, made, is_old=False) for name, made in FIGURES.items()}


def not_told() -> dict[str, Figure]:
    """The same where no metrics are read."""
    return {name: Figure(value=None, unit=made.unit, certainty="not_observable") for name, made in FIGURES.items()}


def _figure(book: Telling, made: _Made, *, is_old: bool) -> Figure:
    if not any(book.is_told(name) for name in made.of):
        return Figure(value=None, unit=made.unit, certainty="not_observable")
    value = None if is_old else made.read(book)
    # Of what is counted here nothing can be below 0: a finding says that it was told so, and it is no figure.
    return Figure(value=None if value is None or value < 0 else value, unit=made.unit, certainty="derived")


def _stands(signal: str, part: str | None = None) -> _Made:
    return _Made(SIGNALS[signal].unit, (signal,), lambda book: book.value(signal, part))


def _mean_over(signal: str, window_s: float) -> _Made:
    return _made_of(signal, window_s, lambda book: book.course(signal), _mean)


def _highest_over(signal: str, window_s: float) -> _Made:
    return _made_of(signal, window_s, lambda book: book.peaks(signal), max)


def _made_of(signal: str, window_s: float, read: Callable[[Telling], Points], choose: Choose) -> _Made:
    """Of a gauge, over what was read in the window."""

    def over(book: Telling) -> Value:
        since_s = (book.read_s or 0.0) - window_s
        told = [value for at_s, value in read(book) if at_s > since_s]
        return choose(told) if told else None

    return _Made(SIGNALS[signal].unit, (signal,), over)


def _rate(unit: Unit, *signals: str) -> _Made:
    """A second, of all of them that are told."""
    return _Made(unit, signals, lambda book: _sum(book.rate(signal, MINUTE_S) for signal in signals))


def _grown(unit: Unit, window_s: float, *signals: str) -> _Made:
    return _Made(unit, signals, lambda book: _sum(_amount(book, signal, window_s) for signal in signals))


def _quantile(signal: str, q: float, window_s: float = FIVE_MINUTES_S) -> _Made:
    def read(book: Telling) -> Value:
        found = book.quantile(signal, q, window_s)
        return found.value if found is not None else None

    return _Made(SIGNALS[signal].unit, (signal,), read)


def _amount(book: Telling, signal: str, window_s: float) -> Value:
    grown = book.grown(signal, window_s)
    return grown.amount if grown is not None else None


def _hits(window_s: float) -> _Made:
    def read(book: Telling) -> Value:
        found = hit_rate(book, "prefix", window_s)
        return found.value if found is not None else None

    return _Made("ratio", ("prefix_queries", "reused_blocks"), read)


def _hits_in(parts: Iterable[str], window_s: float = MINUTE_S) -> Read:
    """Of the prompt tokens looked up, those that a tier had."""
    names = tuple(parts)

    def read(book: Telling) -> Value:
        queried = _amount(book, "prefix_queries", window_s)
        for signal in ("cached_prompt_tokens_by_tier", "prompt_tokens_by_source"):
            grown = [book.grown(signal, window_s, part) for part in names]
            told = [one.amount for one in grown if one is not None]
            if told and queried:
                return sum(told) / queried
        return None

    return read


def _external(book: Telling) -> Value:
    found = hit_rate(book, "external", MINUTE_S)
    return found.value if found is not None else _first(_hits_in(BEYOND)(book), book.value("kvbm_disk_hit_rate"))


def _computed(book: Telling) -> Value:
    queried, hit = _amount(book, "prefix_queries", MINUTE_S), _amount(book, "prefix_hits", MINUTE_S)
    return queried - hit if queried is not None and hit is not None else None


def _per_finished(book: Telling) -> Value:
    found = book.ratio("preemptions", "requests_finished", TEN_MINUTES_S)
    return found.value if found is not None else None


def _affinity_lost(book: Telling) -> Value:
    """Of the tokens that the best engine had cached, those that were not where the router sent the request."""
    had, best = (
        _total(book.histogram(name, HALF_HOUR_S)) for name in ("router_predicted_tokens", "router_best_tokens")
    )
    return 1 - had / best if had is not None and best else None


def _total(buckets: Buckets | None) -> Value:
    return None if buckets is None or mean(buckets) is None else buckets.total


def _sum(values: Iterable[Value]) -> Value:
    told = [value for value in values if value is not None]
    return sum(told) if told else None


def _first(*values: Value) -> Value:
    return next((value for value in values if value is not None), None)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


_TIERS: Final = ("cached_prompt_tokens_by_tier", "prompt_tokens_by_source")
FIGURES: Final[Mapping[str, _Made]] = {
    "used": _stands("kv_usage"),
    "used_mean_5m": _mean_over("kv_usage", FIVE_MINUTES_S),
    "used_max_5m": _highest_over("kv_usage", FIVE_MINUTES_S),
    "used_host": _stands("kv_usage_host"),
    "ttft_p50_s": _quantile("ttft", 0.5),
    "ttft_p99_s": _quantile("ttft", 0.99),
    "queue_p50_s": _quantile("queue_time", 0.5),
    "queue_p99_s": _quantile("queue_time", 0.99),
    "prefill_p50_s": _quantile("prefill_time", 0.5),
    "itl_p50_s": _quantile("inter_token_latency", 0.5),
    "itl_p99_s": _quantile("inter_token_latency", 0.99),
    "running": _stands("requests_running"),
    "waiting": _stands("requests_waiting"),
    "waiting_for_capacity": _stands("requests_waiting_by_reason", "capacity"),
    "waiting_deferred": _stands("requests_waiting_by_reason", "deferred"),
    "hit_rate": _hits(MINUTE_S),
    "hit_rate_30m": _hits(HALF_HOUR_S),
    "hit_rate_host": _Made(
        "ratio",
        (*_TIERS, "kvbm_host_hit_rate"),
        lambda book: _first(_hits_in(HOST)(book), book.value("kvbm_host_hit_rate")),
    ),
    "hit_rate_external": _Made("ratio", ("external_prefix_queries", *_TIERS, "kvbm_disk_hit_rate"), _external),
    "prompt_tokens_queried": _grown("tokens", MINUTE_S, "prefix_queries"),
    "queried_30m": _grown("tokens", HALF_HOUR_S, "prefix_queries"),
    "prompt_tokens_hit": _grown("tokens", MINUTE_S, "prefix_hits"),
    "prompt_tokens_computed": _Made("tokens", ("prefix_queries",), _computed),
    "tokens_per_s": _rate("per_second", "generated_tokens"),
    "preemptions_per_s": _rate("per_second", "preemptions"),
    "preemptions_10m": _grown("requests", TEN_MINUTES_S, "preemptions"),
    "finished_10m": _grown("requests", TEN_MINUTES_S, "requests_finished"),
    "preemptions_per_finished": _Made("ratio", ("preemptions",), _per_finished),
    "kv_loads_waiting": _stands("kv_fetch_by_stage"),
    "transfer_failures": _grown(
        "requests",
        HOUR_S,
        "transfer_failures",
        "transfer_notification_failures",
        "transfer_expired",
        "transfer_read_after_expiry",
    ),
    "offload_bytes_per_s": _rate("bytes", "offload_load_bytes", "offload_store_bytes"),
    "offload_p99_s": _quantile("load_back_duration", 0.99),
    "offload_failures": _grown(
        "requests", HOUR_S, "offload_allocation_failures", "offload_stores_skipped", "tier_promotion_failures"
    ),
    "affinity_lost": _Made("ratio", ("router_best_tokens",), _affinity_lost),
}
