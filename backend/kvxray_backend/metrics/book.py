"""All signals of one source over time: pages go in, values, rates, ratios and quantiles come out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kvxray_backend.metrics.exposition import Page
from kvxray_backend.metrics.histograms import Buckets, Quantile, add_all, quantile
from kvxray_backend.metrics.names import Family
from kvxray_backend.metrics.ratio import Ratio
from kvxray_backend.metrics.reading import Engine, PageReading, Reading, Way, read_page
from kvxray_backend.metrics.series import Amount, GaugeSeries, GrowingSeries, Grown, together
from kvxray_backend.metrics.signal import Signal
from kvxray_backend.metrics.signals import SIGNALS
from kvxray_backend.quantities import counted

MAX_SERIES: Final = 4_096
# Beyond this many, an engine that tells something new is known only by exactly the labels it had before.
_MAX_ENGINES_COMPARED: Final = 256
# Nobody asks for what vanished longer ago than this.
FORGET_AFTER_S: Final = 3_600.0
# Clocks that are set move the start of a process by a little.
_SAME_START_S: Final = 2.0

_Key = tuple[str, str, Engine, Way]
Series = GaugeSeries | GrowingSeries[float] | GrowingSeries[Buckets]


@dataclass(frozen=True, slots=True)
class Reset:
    """Counters of one page that fell, so that whoever counts began anew. `signals`: whose."""

    at_s: float
    signals: tuple[str, ...]

    @property
    def sentence(self) -> str:
        return f"{counted(len(self.signals), 'counter')} began anew: the engine was restarted, or another answers there"


class MetricsBook:
    """Times are seconds on any clock that goes forward; pages come in their order. What the last page does not tell is
    not known now, whatever earlier ones told.
    """

    def __init__(self) -> None:
        self._series: dict[_Key, Series] = {}
        self._by_signal: dict[str, set[_Key]] = {}
        self._ways: dict[tuple[str, Engine, Family], int] = {}
        # Of the page that is being taken.
        self._told_otherwise: set[tuple[str, Engine, Family]] = set()
        self._engines: set[Engine] = set()
        self._started_at: float | None = None
        self.last_s: float | None = None
        self.families: tuple[Family, ...] = ()
        self.num_late_pages = 0
        self.num_series_left_out = 0
        self.num_unreadable = 0

    def take(self, at_s: float, page: Page) -> Reset | None:
        """A page as it was read at `at_s`; returns what began anew. One that comes late is counted and left out."""
        return self.take_reading(at_s, read_page(page))

    def take_reading(self, at_s: float, read: PageReading) -> Reset | None:
        if self.last_s is not None and at_s <= self.last_s:
            self.num_late_pages += 1
            return None
        began_anew = self._began_anew(read.started_at)
        known = frozenset(self._engines)
        self._told_otherwise.clear()
        fell = [reading.signal for reading in read.readings if self._add(at_s, reading, known, began_anew)]
        self._engines = {key[2] for key in self._series}
        self.num_unreadable += read.num_unreadable
        self.families = read.families or self.families
        self.last_s = at_s
        self._forget()
        return Reset(at_s, tuple(dict.fromkeys(fell))) if fell else None

    @property
    def started_s(self) -> float | None:
        """When the process began, as pages told it last, Unix seconds; None: none did."""
        return self._started_at

    @property
    def read_s(self) -> float | None:
        """When the last page was read; None: never."""
        return self.last_s

    def value(self, signal: str, part: str | None = None) -> float | None:
        """Now: of a gauge how it stands, of a counter all it counted since its engine started. None: not told."""
        table = SIGNALS[signal]
        told = [value for _, value in self._now(table, part)]
        if not told:
            return None
        return max(told) if table.combine == "max" else sum(told)

    def parts(self, signal: str) -> dict[str, float]:
        """Now, by the values of the label that splits it."""
        names = dict.fromkeys(key[1] for key, _ in self._now(SIGNALS[signal], None))
        return {part: value for part in names if (value := self.value(signal, part)) is not None}

    def by_engine(self, signal: str) -> dict[Engine, float]:
        """Now, of each engine, and data-parallel rank, by itself."""
        told: dict[Engine, float] = {}
        for (_, _, engine, _), value in self._now(SIGNALS[signal], None):
            told[engine] = told.get(engine, 0.0) + value
        return told

    def course(self, signal: str, part: str | None = None) -> list[tuple[float, float]]:
        """A gauge over time: (seconds, value) of every page that told it, engines put together."""
        table = SIGNALS[signal]
        assert table.kind == "gauge", f"{signal} is no gauge: ask what it grew by"
        at: dict[float, list[float]] = {}
        for key in self._keys(signal, part):
            series = self._series[key]
            assert isinstance(series, GaugeSeries), "the table says that it is a gauge"
            for when, value in series.points():
                at.setdefault(when, []).append(value)
        combine = max if table.combine == "max" else sum
        return [(when, float(combine(at[when]))) for when in sorted(at)]

    def peaks(self, signal: str) -> list[tuple[float, float]]:
        """A gauge over time, at its highest: as it was read, since nobody knows what it was in between."""
        return self.course(signal)

    def grown(self, signal: str, window_s: float, part: str | None = None) -> Grown[float] | None:
        """What a counter grew by in the last seconds. None: not told, or by one page only."""
        return together(self._grown(signal, window_s, part))

    def rate(self, signal: str, window_s: float, part: str | None = None) -> float | None:
        """A second."""
        grown = self.grown(signal, window_s, part)
        return grown.amount / grown.seconds if grown else None

    def ratio(self, numerator: str, denominator: str, window_s: float | None) -> Ratio | None:
        """Of two counters, in the last seconds; window None: since the engines started. None: no data. An empty
        denominator is no data, and never 0.
        """
        if window_s is None:
            above, below, seconds = self.value(numerator), self.value(denominator), None
        else:
            over, under = self.grown(numerator, window_s), self.grown(denominator, window_s)
            above, below = over.amount if over else None, under.amount if under else None
            seconds = under.seconds if under else None
        if above is None or below is None or below <= 0:
            return None
        return Ratio(above / below, above, below, seconds)

    def histogram(self, signal: str, window_s: float | None) -> Buckets | None:
        """What was counted in the last seconds; None for the window: since the engines started. None: not told."""
        found: list[Buckets] = []
        for key in self._keys(signal, None):
            series = self._series[key]
            assert isinstance(series, GrowingSeries), "the table says that it grows"
            grown = self._window(series, window_s) if window_s is not None else None
            total = series.told if window_s is None else grown.amount if grown else None
            if isinstance(total, Buckets):
                found.append(total)
        return add_all(found)

    def quantile(self, signal: str, q: float, window_s: float | None) -> Quantile | None:
        """None: not told, or nothing was counted in that time."""
        found = self.histogram(signal, window_s)
        return quantile(found, q) if found is not None else None

    def latest(self) -> Iterator[tuple[str, str, float | Grown[float] | Grown[Buckets]]]:
        """What the last page told, series by series: (signal, part, how a gauge stands or what grew since before)."""
        for (signal, part, _, _), series in self._series.items():
            if series.last_s != self.last_s:
                continue
            if isinstance(series, GaugeSeries):
                yield signal, part, series.value
            elif (grown := series.last_growth()) is not None:
                yield signal, part, grown

    def told_series(self) -> Iterator[tuple[str, str, object, Series]]:
        """All that is remembered, series by series: (signal, part, who tells it, the series). Hold the lock."""
        for (signal, part, engine, way), series in self._series.items():
            yield signal, part, (engine, way), series

    def is_told(self, signal: str) -> bool:
        """By the last page."""
        return any(self._series[key].last_s == self.last_s for key in self._by_signal.get(signal, ()))

    def ways(self, signal: str) -> list[Way]:
        """How the last page told it, one entry a way."""
        told = [key[3] for key in self._keys(signal, None) if self._series[key].last_s == self.last_s]
        return list(dict.fromkeys(told))

    def is_stale(self, now_s: float, after_s: float) -> bool:
        """No page for that long, or none ever."""
        return self.last_s is None or now_s - self.last_s > after_s

    def _add(self, at_s: float, reading: Reading, known: frozenset[Engine], began_anew: bool) -> bool:
        key = (reading.signal, reading.part, reading.engine, reading.way)
        series = self._series.get(key)
        if series is None:
            if len(self._series) >= MAX_SERIES:
                self.num_series_left_out += 1
                return False
            series = self._begin(key, reading, _is_known(reading.engine, known))
        if isinstance(series, GaugeSeries):
            assert not isinstance(reading.value, Buckets), "a gauge is a number"
            series.add(at_s, reading.value)
            return False
        return series.add(at_s, reading.value, began_anew=began_anew)  # type: ignore[arg-type]

    def _begin(self, key: _Key, reading: Reading, engine_is_known: bool) -> Series:
        was_told_otherwise = self._drop_other_ways(key)
        # Told another way until now, it may have counted long before it was read.
        born_s = self.last_s if engine_is_known and not was_told_otherwise else None
        series: Series
        if SIGNALS[reading.signal].kind == "gauge":
            series = GaugeSeries()
        elif isinstance(reading.value, Buckets):
            series = _born(GrowingSeries[Buckets](), reading.value, born_s)
        else:
            series = _born(GrowingSeries[float](), reading.value, born_s)
        self._series[key] = series
        self._by_signal.setdefault(reading.signal, set()).add(key)
        return series

    def _drop_other_ways(self, key: _Key) -> bool:
        """What the same family told another way before would count the same tokens twice. True: it did."""
        signal, _, engine, (family, number, _) = key
        teller = (signal, engine, family)
        before = self._ways.get(teller, number)
        self._ways[teller] = number
        if before != number:
            self._told_otherwise.add(teller)
            for other in list(self._by_signal.get(signal, ())):
                if other[2] == engine and other[3][:2] == (family, before):
                    self._drop(other)
        return teller in self._told_otherwise

    def _drop(self, key: _Key) -> None:
        del self._series[key]
        self._by_signal[key[0]].discard(key)

    def _forget(self) -> None:
        assert self.last_s is not None, "a page was taken"
        for key in [key for key, series in self._series.items() if self.last_s - series.last_s > FORGET_AFTER_S]:
            self._drop(key)
            self._ways.pop((key[0], key[2], key[3][0]), None)

    def _began_anew(self, started_at: float | None) -> bool:
        """A restart that its counters do not show: they may have passed where they were before."""
        before, self._started_at = self._started_at, started_at if started_at is not None else self._started_at
        return before is not None and started_at is not None and started_at - before > _SAME_START_S

    def _keys(self, signal: str, part: str | None) -> Iterator[_Key]:
        for key in sorted(self._by_signal.get(signal, ())):
            if part is None or key[1] == part:
                yield key

    def _now(self, table: Signal, part: str | None) -> Iterator[tuple[_Key, float]]:
        assert table.kind != "histogram", f"{table.name} is a histogram: ask for its quantiles"
        for key in self._keys(table.name, part):
            series = self._series[key]
            if series.last_s == self.last_s:
                told = series.value if isinstance(series, GaugeSeries) else series.told
                assert not isinstance(told, Buckets), "the table says that it is a number"
                yield key, told

    def _grown(self, signal: str, window_s: float, part: str | None) -> Iterator[Grown[float]]:
        assert SIGNALS[signal].kind == "counter", f"{signal} is no counter"
        for key in self._keys(signal, part):
            series = self._series[key]
            assert isinstance(series, GrowingSeries), "the table says that it is a counter"
            grown = self._window(series, window_s)
            if grown is not None and not isinstance(grown.amount, Buckets):
                yield Grown(grown.amount, grown.seconds)

    def _window(
        self, series: GrowingSeries[float] | GrowingSeries[Buckets], window_s: float
    ) -> Grown[float] | Grown[Buckets] | None:
        assert self.last_s is not None, "a series came of a page"
        return series.grown(self.last_s - window_s, self.last_s)


def _is_known(engine: Engine, known: frozenset[Engine]) -> bool:
    """Whether it was there before: some of what an engine tells carries fewer labels than the rest."""
    if engine in known or len(known) > _MAX_ENGINES_COMPARED:
        return engine in known
    labels = dict(engine)
    return any(all(labels.get(label, value) == value for label, value in other) for other in known)


def _born(series: GrowingSeries[Amount], told: Amount, at_s: float | None) -> GrowingSeries[Amount]:
    if at_s is not None:
        series.begin_at_zero(at_s, told)
    return series
