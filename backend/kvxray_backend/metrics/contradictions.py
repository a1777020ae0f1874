"""Metrics against themselves and against events: what cannot both be so, and what only looks like it.

Pure: one moment's numbers in, what was found out. Unknown numbers contradict nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from kvxray_backend.metrics.book import MetricsBook
from kvxray_backend.metrics.configuration import PoolShape
from kvxray_backend.metrics.hit_rates import hit_rate
from kvxray_backend.metrics.signals import SIGNALS
from kvxray_backend.quantities import counted, share_text

Kind = Literal["metrics_contradiction", "conservation_violation", "hit_rate_suspect"]

AT_REST_S: Final = 60.0
"""So long metrics must tell of no work before events that tell of some contradict them."""
LATE_S: Final = 15.0
"""What happened since may not be on the last page yet."""
_LEAST_PAGES: Final = 3
# Ratios come as floats, and percentages as ratios of counts that were taken a moment apart.
_SLACK: Final = 1e-6
# Parts and wholes of counters are read one after the other while the engine counts.
_PARTS_SLACK: Final = 0.01
_SUM_OF_PARTS: Final = (
    ("prompt_tokens_by_source", "prompt_tokens"),
    ("cached_prompt_tokens_by_tier", "cached_prompt_tokens"),
    ("requests_waiting_by_reason", "requests_waiting"),
)
_HITS_OF_QUERIES: Final = (
    ("prefix_hits", "prefix_queries"),
    ("external_prefix_hits", "external_prefix_queries"),
    ("multimodal_hits", "multimodal_queries"),
)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """`kind:subject` is how findings name it. `numbers`: what was told, by name."""

    kind: Kind
    subject: str
    sentence: str
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def code(self) -> str:
        return f"{self.kind}:{self.subject}"


@dataclass(frozen=True, slots=True)
class Told:
    """What events say of the same engine at the same moment; None: they do not say.

    cached_blocks: blocks certain to be cached on the device, all groups and copies. complete: nothing is missing since
    the stream began, so that what is not told is not there. hits_grew_by: tokens found in the prefix cache since then.
    stored: blocks that came from `AT_REST_S` to `LATE_S` before the last page.
    """

    cached_blocks: int | None = None
    complete: bool = False
    hits_grew_by: float | None = None
    stored: int | None = None


def contradictions(book: MetricsBook, shape: PoolShape | None = None, told: Told | None = None) -> list[Contradiction]:
    """`shape`: the pool by the engine's configuration, None where it does not tell."""
    found = [*_out_of_range(book), *_hits_above_queries(book), *_parts_above_whole(book), *_conservation(book)]
    found += [*_gauge_only(book)]
    if told is not None:
        found += [*_against_events(book, shape, told)]
    return found


def remarks(book: MetricsBook, told: Told | None = None) -> list[str]:
    """What looks like a contradiction and is none, in a sentence each."""
    said = []
    usage, cached = book.value("kv_usage"), told.cached_blocks if told else None
    if usage is not None and usage < _SLACK and cached:
        said.append(
            f"0 % is in use while {counted(cached, 'block')} are cached: in use is what requests hold, and cached "
            f"blocks without a request are free to be taken"
        )
    gauge, rate = book.value("hit_rate_gauge"), hit_rate(book, "prefix", None)
    if gauge is not None and rate is not None and abs(gauge - rate.value) > 0.1:
        said.append(
            f"the engine's own gauge says {share_text(gauge)} and its counters {share_text(rate.value)}: the gauge is "
            f"of its last batch or its last requests, and the counters are what is shown"
        )
    return said


def _out_of_range(book: MetricsBook) -> Iterator[Contradiction]:
    for signal in SIGNALS.values():
        value = book.value(signal.name) if signal.kind == "gauge" else None
        if value is None:
            continue
        if value < 0:
            yield _metrics(signal.name, f"{signal.name} is {value:g}, which is below 0", value=value)
        elif signal.unit == "ratio" and value > 1 + _SLACK:
            percent = "; it may be told in percent" if value <= 100 else ""
            yield _metrics(signal.name, f"{signal.name} is {value:g}, and a share is at most 1{percent}", value=value)


def _hits_above_queries(book: MetricsBook) -> Iterator[Contradiction]:
    for hits, queries in _HITS_OF_QUERIES:
        found, asked = book.value(hits), book.value(queries)
        if found is not None and asked is not None and found > asked:
            sentence = f"{found:,.0f} were found of {asked:,.0f} looked up, so one of the two is not what it says"
            yield _metrics(hits, sentence, hits=found, queries=asked)


def _parts_above_whole(book: MetricsBook) -> Iterator[Contradiction]:
    for parts, whole in _SUM_OF_PARTS:
        together, all_of_it = book.value(parts), book.value(whole)
        if together is None or all_of_it is None or together <= all_of_it * (1 + _PARTS_SLACK) + 1:
            continue
        sentence = f"{parts} make {together:,.0f} together, more than the {all_of_it:,.0f} of {whole}"
        yield _metrics(parts, sentence, parts=together, whole=all_of_it)


def _conservation(book: MetricsBook) -> Iterator[Contradiction]:
    """Of an engine at rest: under load its gauges are of different moments of one step."""
    if book.value("requests_running"):
        return
    names = ("kv_available_tokens", "kv_evictable_tokens", "kv_used_tokens")
    told = {name: value for name in (*names, "kv_capacity_tokens") if (value := book.value(name)) is not None}
    if len(told) < 4:
        return
    residual = told["kv_capacity_tokens"] - sum(told[name] for name in names)
    if abs(residual) < 1:
        return
    what = "are neither available, evictable nor used" if residual > 0 else "are counted twice"
    sentence = f"{abs(residual):,.0f} tokens of the pool {what} while no request runs"
    yield Contradiction("conservation_violation", f"{residual:.0f}", sentence, told)


def _gauge_only(book: MetricsBook) -> Iterator[Contradiction]:
    gauge = book.value("hit_rate_gauge")
    if gauge is None or book.value("prefix_queries") is not None or book.value("reused_blocks") is not None:
        return
    sentence = (
        "the hit rate is a gauge of the engine's own: of its last batch or requests, and 0 where none was looked up"
    )
    yield Contradiction("hit_rate_suspect", "gauge_only", sentence, {"gauge": gauge})


def _against_events(book: MetricsBook, shape: PoolShape | None, told: Told) -> Iterator[Contradiction]:
    capacity = shape.usable_blocks if shape is not None else book.value("kv_capacity_blocks")
    cached = told.cached_blocks
    if cached is not None and capacity is not None and cached > capacity:
        sentence = f"events tell of {counted(cached, 'cached block')} and the metrics of a pool of {capacity:,.0f}"
        yield _metrics("kv_capacity_blocks", sentence, cached=float(cached), capacity=float(capacity))
    if told.complete and cached == 0 and told.hits_grew_by:
        sentence = (
            f"{told.hits_grew_by:,.0f} tokens were found in the prefix cache and events tell of no block in it: stream "
            f"and metrics may be of two engines"
        )
        yield _metrics("prefix_hits", sentence, hits=told.hits_grew_by, cached=0.0)
    if told.stored and _is_at_rest(book):
        sentence = (
            f"events tell of {counted(told.stored, 'block')} stored within a minute in which the metrics tell of no "
            f"request and no prompt token: stream and metrics may be of two engines"
        )
        yield _metrics("requests_running", sentence, stored=float(told.stored), running=0.0)


def _is_at_rest(book: MetricsBook) -> bool:
    """Whether every page of that time told of no work."""
    window_s = AT_REST_S + LATE_S
    grown = book.grown("prompt_tokens", window_s)
    if book.last_s is None or grown is None or grown.amount or grown.seconds < AT_REST_S:
        return False
    running = [value for at_s, value in book.course("requests_running") if at_s >= book.last_s - window_s]
    return len(running) >= _LEAST_PAGES and not any(running)


def flapping(resets_s: Iterable[float], window_s: float = 60.0) -> Contradiction | None:
    """`resets_s`: when counters began anew, as of pages read. Three times a minute is no engine that restarts."""
    times = sorted(resets_s)
    if not any(later - earlier <= window_s for earlier, later in zip(times, times[2:], strict=False)):
        return None
    sentence = "counters begin anew again and again: several engines seem to answer at one address, in turn"
    return _metrics("counters", sentence, resets=float(len(times)))


def _metrics(signal: str, sentence: str, **numbers: float) -> Contradiction:
    return Contradiction("metrics_contradiction", signal, sentence, numbers)
