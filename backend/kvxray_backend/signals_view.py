"""What the metrics of an engine tell, now or at a moment of the past, as the API gives it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from kvxray_backend.metrics.book import MetricsBook
from kvxray_backend.metrics.labels import label_of
from kvxray_backend.metrics.minute import Counted, Spread, Stood, Stretch, Told, quantile
from kvxray_backend.metrics.ratios import RATIO_TOPICS, RatioOf, ratio
from kvxray_backend.metrics.signal import Signal
from kvxray_backend.metrics.signals import TOPICS
from kvxray_backend.metrics.signals_page import FAMILY_WORDS, way_words
from kvxray_backend.moments import iso_time
from kvxray_backend.signal_course import Course, Line
from kvxray_backend.signal_history import Timed
from kvxray_backend.signals_types import (
    HeatView,
    LineView,
    PartView,
    SignalsCourseView,
    SignalView,
    TopicView,
)

MAX_PARTS: Final = 16
WINDOW_S: Final = 300.0
"""Of rates, quantiles and ratios, where readings are not further apart."""


@dataclass(frozen=True, slots=True)
class Reading:
    """`window`: what was told over the window. `now`: by signal, all since its engine started, and by whom it is told;
    empty for the past.
    """

    window: Stretch
    now: Mapping[str, Now]


@dataclass(frozen=True, slots=True)
class Now:
    """Of one signal: its value and those of its parts, and what it is read from."""

    value: float | None
    parts: Mapping[str, float]
    told_by: str


def now_of(book: MetricsBook) -> dict[str, Now]:
    """What the last page told. Call with the engine's lock held."""
    return {
        signal.name: _now(book, signal)
        for signals in TOPICS.values()
        for signal in signals
        if book.is_told(signal.name)
    }


def _now(book: MetricsBook, signal: Signal) -> Now:
    ways = [signal.told[family][number] for family, number, _ in book.ways(signal.name)]
    told_by = ", and ".join(dict.fromkeys(way_words(way) for way in ways))
    if signal.kind == "histogram":
        return Now(None, {}, told_by)
    parts = {part: value for part, value in book.parts(signal.name).items() if part}
    return Now(book.value(signal.name), parts, told_by)


def makes(book: MetricsBook) -> str:
    """Who tells, in words."""
    return ", ".join(FAMILY_WORDS[family] for family in book.families)


def window_of(told: list[Timed]) -> Stretch:
    window = Stretch()
    for one in told:
        window.add(one.stretch)
    return window


def topics(reading: Reading, *, with_untold: bool) -> list[TopicView]:
    """Those in which something is told; with_untold: all signals that there could be."""
    found = [
        TopicView(title=title, signals=[*_ratios(title, reading, with_untold), *_signals(title, reading, with_untold)])
        for title in TOPICS
    ]
    return [topic for topic in found if topic.signals]


def _ratios(title: str, reading: Reading, with_untold: bool) -> Iterator[SignalView]:
    for one in RATIO_TOPICS.get(title, ()):
        is_told = all(_is_told(reading, signal) for signal in (one.above, one.below))
        if is_told or with_untold:
            yield _ratio_view(one, ratio(one, reading.window), is_told=is_told)


def _signals(title: str, reading: Reading, with_untold: bool) -> Iterator[SignalView]:
    for signal in TOPICS[title]:
        is_told = _is_told(reading, signal.name)
        if is_told or with_untold:
            yield _signal_view(signal, reading, is_told=is_told)


def _is_told(reading: Reading, signal: str) -> bool:
    return signal in reading.now or any(True for _ in reading.window.parts(signal))


def _ratio_view(one: RatioOf, value: float | None, *, is_told: bool) -> SignalView:
    return SignalView(
        name=one.name,
        label=label_of(one.name),
        unit=one.unit,
        kind="ratio",
        certainty="derived" if is_told else "not_observable",
        meaning=one.meaning,
        value=value,
        parts=[],
        rate_per_s=None,
        p50=None,
        p99=None,
        mean=None,
        told_by=f"{label_of(one.above)} by {label_of(one.below)}" if is_told else None,
    )


def _signal_view(signal: Signal, reading: Reading, *, is_told: bool) -> SignalView:
    whole, now = reading.window.whole(signal.name), reading.now.get(signal.name)
    spread = whole if isinstance(whole, Spread) else None
    return SignalView(
        name=signal.name,
        label=label_of(signal.name),
        unit=signal.unit,
        kind=signal.kind,
        certainty=signal.certainty if is_told else "not_observable",
        meaning=signal.meaning,
        value=now.value if now is not None else whole.mean if isinstance(whole, Stood) else None,
        parts=_parts(signal, reading, now),
        rate_per_s=_rate(whole),
        p50=quantile(spread, 0.5) if spread is not None else None,
        p99=quantile(spread, 0.99) if spread is not None else None,
        mean=spread.mean if spread is not None else None,
        told_by=now.told_by if now is not None else None,
    )


def _parts(signal: Signal, reading: Reading, now: Now | None) -> list[PartView]:
    told = {part: value for part, value in reading.window.parts(signal.name) if part}
    values: dict[str, float | None] = {
        part: value.mean if isinstance(value, Stood) and now is None else None for part, value in told.items()
    }
    values |= now.parts if now is not None else {}
    label = next(iter(signal.split_labels), "part")
    rates = {part: _rate(told.get(part)) for part in values}
    largest = sorted(values, key=lambda part: (-(rates[part] or 0.0), -(values[part] or 0.0), part))[:MAX_PARTS]
    return [PartView(labels={label: part}, value=values[part], rate_per_s=rates[part]) for part in largest]


def _rate(told: Told | None) -> float | None:
    if told is None or isinstance(told, Stood) or told.seconds <= 0:
        return None
    return (told.amount if isinstance(told, Counted) else told.num) / told.seconds


def course_view(engine: str, told: Course, *, heat: bool) -> SignalsCourseView:
    return SignalsCourseView(
        engine=engine,
        step_s=told.step_s,
        times=[iso_time(at_s * 10**9) for at_s in told.times_s],
        series={name: _line_view(name, line, heat=heat) for name, line in told.lines.items()},
    )


def _line_view(name: str, line: Line, *, heat: bool) -> LineView:
    def size(part: str) -> float:
        return sum(value or 0.0 for value in line.parts[part])

    largest = sorted(line.parts, key=lambda part: (-size(part), part))[:MAX_PARTS]
    rows = [HeatView(lower=lower, upper=upper, counts=counts) for lower, upper, counts in line.heat] if heat else []
    return LineView.model_validate(
        {
            "label": label_of(name),
            "unit": line.unit,
            "kind": line.kind,
            "values": line.values,
            "more": line.more,
            "parts": {part: line.parts[part] for part in largest},
            "total": line.total,
            "heat": rows,
        }
    )
