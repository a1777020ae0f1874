"""A page read by the table of signals: what each engine on it tells, under our names, each fact once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf, isfinite
from typing import Final

from kvxray_backend.metrics.exposition import Page, Sample
from kvxray_backend.metrics.histograms import Buckets, make_buckets
from kvxray_backend.metrics.names import FAMILIES, Family, canonical, families_in
from kvxray_backend.metrics.signal import Kind, Signal, Term, Told
from kvxray_backend.metrics.signals import SIGNALS

Engine = tuple[tuple[str, str], ...]
Way = tuple[Family, int, int]
Value = float | Buckets

# Ranks of one engine that repeat the same numbers: the lowest speaks for all.
RANK_LABELS: Final = ("tp_rank", "pp_rank", "moe_ep_rank", "moe_dp_rank", "attn_tp_rank", "attn_cp_rank")
# SGLang tells the whole as the priority with no name, and then its parts again.
PART_OF_WHOLE_LABEL: Final = "priority"
# What tells the parts of a number apart, in any signal: not who tells it.
_DETAIL_LABELS: Final = frozenset(
    label
    for signal in SIGNALS.values()
    for ways in signal.told.values()
    for way in ways
    for term in way.terms
    for label in (*term.only, *filter(None, [way.split]))
)
_NOT_OF_THE_ENGINE: Final = _DETAIL_LABELS | {"le", PART_OF_WHOLE_LABEL, *RANK_LABELS}
# What these tell of an engine repeats what the engine tells itself on the same page.
_REPEATING: Final[tuple[Family, ...]] = ("dynamo", "lmcache")
_SUFFIX: Final[Mapping[Kind, tuple[str, ...]]] = {
    "gauge": ("",),
    "counter": ("_total", ""),
    "histogram": ("_bucket", "_sum", "_count"),
}


@dataclass(frozen=True, slots=True)
class Reading:
    """One number, or histogram, that one engine tells. `part`: the value of the signal's split label, empty for none.
    `way`: which family's way to tell it, and which term of that; what is told one way does not go on where another was.
    """

    signal: str
    part: str
    engine: Engine
    way: Way
    value: Value


@dataclass(frozen=True, slots=True)
class PageReading:
    """`started_at`: when the process began, in seconds since 1970; None where the page tells none, or several.
    `num_unreadable`: numbers that were no numbers (NaN, infinite, a counter below 0).
    """

    readings: tuple[Reading, ...]
    families: tuple[Family, ...]
    started_at: float | None
    num_unreadable: int


def read_page(page: Page) -> PageReading:
    index = _Index(page.samples)
    readings = tuple(reading for signal in SIGNALS.values() for reading in _read_signal(signal, index))
    starts = [sample.value for sample in page.samples if sample.name == "process_start_time_seconds"]
    started_at = starts[0] if len(starts) == 1 and isfinite(starts[0]) else None
    return PageReading(readings, families_in(sample.name for sample in page.samples), started_at, index.num_unreadable)


class _Index:
    """The samples of a page by canonical name."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self.num_unreadable = 0
        self._by_name: dict[str, list[Sample]] = {}
        # The same series twice, by its old and its new spelling or by mistake, is one.
        seen: set[tuple[str, frozenset[tuple[str, str]]]] = set()
        for sample in samples:
            known = canonical(sample.name)
            if known is None or (series := (known, frozenset(sample.labels.items()))) in seen:
                continue
            seen.add(series)
            if isfinite(sample.value):
                self._by_name.setdefault(known, []).append(sample)
            else:
                self.num_unreadable += 1

    def find(self, name: str, kind: Kind) -> Iterator[tuple[str, Sample]]:
        """Its samples, each with the suffix that it was found under; of a counter's two spellings one."""
        for suffix in _SUFFIX[kind]:
            samples = self._by_name.get(name + suffix, ())
            for sample in samples:
                if kind == "counter" and sample.value < 0:
                    self.num_unreadable += 1
                else:
                    yield suffix, sample
            if samples and kind == "counter":
                return


def _read_signal(signal: Signal, index: _Index) -> Iterator[Reading]:
    told_by_engine = False
    for family in FAMILIES:
        if family not in signal.told or (family in _REPEATING and told_by_engine):
            continue
        for reading in _read_family(signal, family, index):
            told_by_engine = told_by_engine or family not in _REPEATING
            yield reading


def _read_family(signal: Signal, family: Family, index: _Index) -> Iterator[Reading]:
    """Of each engine the best way that it tells."""
    told: set[Engine] = set()
    for number, way in enumerate(signal.told[family]):
        by_term = [_read_term(term, way, signal.kind, index) for term in way.terms]
        engines = [engine for engine in by_term[0] if all(engine in values for values in by_term)]
        scale = _scale(way, index)
        for engine in engines if scale is not None else ():
            if engine in told:
                continue
            told.add(engine)
            for position, values in enumerate(by_term):
                for part, value in values[engine].items():
                    yield Reading(signal.name, part, engine, (family, number, position), _scaled(value, scale))


def _scale(way: Told, index: _Index) -> float | None:
    """What the way's numbers are to be multiplied by; None: the page does not tell the unit."""
    if not way.times:
        return way.factor
    units = [
        sample.value
        for ways in SIGNALS[way.times].told.values()
        for unit in ways
        for term in unit.terms
        for name in term.names
        for _, sample in index.find(name, "gauge")
    ]
    return max(units) * way.factor if units and max(units) > 0 else None


def _scaled(value: Value, scale: float | None) -> Value:
    if isinstance(value, Buckets) or scale is None or scale == 1.0:
        return value
    return value * scale


def _read_term(term: Term, way: Told, kind: Kind, index: _Index) -> dict[Engine, dict[str, Value]]:
    """The first of the names that each engine tells."""
    read: dict[Engine, dict[str, Value]] = {}
    for name in term.names:
        found = _by_engine(index.find(name, kind), term, way, kind)
        for engine, parts in found.items():
            read.setdefault(engine, parts)
    return read


def _by_engine(
    found: Iterable[tuple[str, Sample]], term: Term, way: Told, kind: Kind
) -> dict[Engine, dict[str, Value]]:
    lines: dict[Engine, dict[str, list[tuple[str, Sample]]]] = {}
    for suffix, sample in found:
        parts = lines.setdefault(_engine(sample), {})
        if all(sample.labels.get(label) in values for label, values in term.only.items()):
            parts.setdefault(sample.labels.get(way.split, "") if way.split else "", []).append((suffix, sample))
        elif not way.split and kind == "counter":
            # Parts of a counter appear with their first case: until then it is 0, not unknown.
            parts.setdefault("", [])
    make = _histogram if kind == "histogram" else _number
    return {
        engine: values
        for engine, parts in lines.items()
        if (values := {part: value for part, told in parts.items() if (value := make(told)) is not None})
    }


def _engine(sample: Sample) -> Engine:
    """Who tells it: all labels that do not say something else."""
    return tuple(sorted((label, value) for label, value in sample.labels.items() if label not in _NOT_OF_THE_ENGINE))


def _number(lines: list[tuple[str, Sample]]) -> float | None:
    return sum(sample.value for _, sample in _of_lowest_rank(lines))


def _histogram(lines: list[tuple[str, Sample]]) -> Buckets | None:
    by_bound: dict[float, float] = {}
    rest: dict[str, float] = {}
    for suffix, sample in _of_lowest_rank(lines):
        if suffix == "_bucket":
            bound = _bound(sample.labels.get("le", ""))
            by_bound[bound] = by_bound.get(bound, 0.0) + sample.value
        else:
            rest[suffix] = rest.get(suffix, 0.0) + sample.value
    return make_buckets(by_bound, rest.get("_count"), rest.get("_sum"))


def _bound(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return -inf


def _of_lowest_rank(lines: list[tuple[str, Sample]]) -> list[tuple[str, Sample]]:
    """Without the ranks that repeat it, and without the priorities where the whole is told."""
    if len(lines) < 2:
        return lines
    if any(sample.labels.get(PART_OF_WHOLE_LABEL) == "" for _, sample in lines):
        lines = [line for line in lines if line[1].labels.get(PART_OF_WHOLE_LABEL) == ""]
    if not any(label in sample.labels for _, sample in lines for label in RANK_LABELS):
        return lines
    ranks = [_rank(sample) for _, sample in lines]
    lowest = min(ranks, default=())
    return [line for line, rank in zip(lines, ranks, strict=True) if rank == lowest]


def _rank(sample: Sample) -> tuple[tuple[int, str], ...]:
    """Ranks in their order as numbers; one that is no number comes after all that are."""
    told = (sample.labels.get(label, "") for label in RANK_LABELS)
    return tuple((int(text) if text.isdecimal() and len(text) < 10 else 1 << 40 if text else 0, text) for text in told)
