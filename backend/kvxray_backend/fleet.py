"""Every engine on one page: a line each, made from the overview of its sources."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from typing import Final

from kvxray_storage.chunk import DamagedChunk
from kvxray_storage.time_travel import NotStored

from kvxray_backend.analysis.verdict import RANK
from kvxray_backend.coverage import CoverageCount, Known, count_of
from kvxray_backend.coverage_of_blocks import known_of_blocks
from kvxray_backend.figure import Certainty, Figure, Unit
from kvxray_backend.fleet_types import EngineLine, EnginesView, ProblemView
from kvxray_backend.moments import Moment, iso_time_or_none
from kvxray_backend.observed.engine import ObservedEngine
from kvxray_backend.observed.spec import Role
from kvxray_backend.overview import KEEP_S, Overview
from kvxray_backend.overview_types import EngineView
from kvxray_backend.residency.answers import MetricsStateView
from kvxray_backend.residency.engine_signals import NO_METRICS, metrics_view
from kvxray_backend.residency.foreign_source import ForeignSource, find_foreign, of_blocks
from kvxray_backend.residency.view import known_of

FIGURES: Final[dict[str, tuple[str, Unit]]] = {
    "usage": ("used", "ratio"),
    "hit_rate": ("hit_rate", "ratio"),
    "evictions_per_s": ("evictions_per_s", "per_second"),
    "cached_blocks": ("cached_blocks", "blocks"),
    "capacity_blocks": ("capacity_blocks", "blocks"),
    "running": ("running", "requests"),
    "waiting": ("waiting", "requests"),
}
"""What a line shows, by the names of the overview."""
_OF_THE_ENGINE: Final = frozenset({"usage", "hit_rate", "running", "waiting"})
"""What metrics tell of all ranks together: every rank says the same."""
_WORST_FIRST: Final[tuple[Certainty, ...]] = ("not_observable", "derived", "exact")


class Fleet:
    """Answers `/api/engines` of one backend: made anew at most once a second, for all who look."""

    def __init__(self, overview: Overview) -> None:
        self.overview = overview
        self._lock = threading.Lock()
        self._made: tuple[float, EnginesView] | None = None

    def now(self) -> EnginesView:
        """Who was attached or removed since is told at once."""
        observed = self.overview.backend.observed
        with self._lock:
            names = {engine.spec.name for engine in observed.all}
            made = self._made
            is_young = made is not None and time.monotonic() - made[0] < KEEP_S
            if made is None or not is_young or names != _watched_in(made[1]):
                made = self._made = time.monotonic(), engines_view(self.overview)
            return made[1]


def _watched_in(view: EnginesView) -> set[str]:
    return {line.name for line in view.engines if line.kind != "blocks" and line.state != "past"}


def engines_view(overview: Overview) -> EnginesView:
    """All of them, in the order in which they were named; stored ones last."""
    backend = overview.backend
    views: dict[str, list[EngineView]] = {}
    for view in overview.now().engines:
        views.setdefault(view.engine, []).append(view)
    lines = [_line_of_blocks(overview, name, views[name][0]) for name in of_blocks(backend) if name in views]
    watched = [engine for engine in backend.observed.all if engine.spec.name in views]
    lines += [_line_of_watched(overview, engine, views[engine.spec.name]) for engine in watched]
    named = {line.name for line in lines}
    lines += [_line_of_stored(overview, told[0]) for name, told in views.items() if name not in named]
    problems = [
        ProblemView(where=one.where, sentence=one.sentence, since=iso_time_or_none(one.since_ns))
        for one in backend.observed.problems
    ]
    return EnginesView(engines=lines, problems=problems)


def _line_of_blocks(overview: Overview, name: str, view: EngineView) -> EngineLine:
    live = overview.backend.sources[name].live
    capacity = Figure(value=view.usable_blocks, unit="blocks")
    cached = view.counts.get("cached", Figure(value=None, unit="blocks"))
    figures = {**_figures([view]), "capacity_blocks": capacity, "cached_blocks": cached}
    return _line(name, [view], figures, count_of(known_of_blocks(live)), "settings", False, NO_METRICS)


def _line_of_watched(overview: Overview, engine: ObservedEngine, views: Sequence[EngineView]) -> EngineLine:
    name = engine.spec.name
    views = sorted(views, key=lambda view: view.source)
    known = [_known(overview, view.source) for view in views]
    origin = overview.backend.observed.origin_of(name)
    with engine.lock:
        metrics = metrics_view(engine)
        num_findings = sum(finding.state == "open" for finding in engine.findings)
    line = _line(name, views, _figures(views), _least(known), origin, origin == "page", metrics)
    return line.model_copy(update={"num_findings": num_findings, "role": engine.spec.role})


def _line_of_stored(overview: Overview, view: EngineView) -> EngineLine:
    coverage = _least([_known(overview, view.source)])
    return _line(view.engine, [view], _figures([view]), coverage, "settings", False, NO_METRICS)


def _known(overview: Overview, source: str) -> Known:
    found = find_foreign(overview.backend, source)
    if not isinstance(found, ForeignSource):
        return Known(kind="hashes")
    try:
        return known_of(overview.desk.at(found, Moment()))
    except (NotStored, DamagedChunk):
        return Known(kind="hashes")  # of which no moment can be told: pruned, or damaged


def _least(known: Iterable[Known]) -> CoverageCount:
    """Of the rank that least is known of."""
    counts = [count_of(one) for one in known]
    return min(counts, key=lambda count: (count.exact, count.derived))


def _line(
    name: str,
    views: Sequence[EngineView],
    figures: dict[str, Figure],
    coverage: CoverageCount,
    origin: str,
    removable: bool,
    metrics: MetricsStateView,
) -> EngineLine:
    worst = min(views, key=lambda view: RANK[view.verdict.status])
    first = views[0]
    return EngineLine(
        name=name,
        make=first.make,
        kind=first.kind,
        role=_role(first.labels),
        model=first.model,
        labels=first.labels,
        sources=[view.source for view in views],
        state=first.state,
        since=first.since,
        origin=origin,  # type: ignore[arg-type]
        removable=removable,
        status=worst.verdict.status,
        sentence=worst.verdict.sentence,
        figures=figures,
        coverage=coverage,
        num_findings=sum(view.num_findings for view in views),
        metrics=metrics,
    )


def _role(labels: dict[str, str]) -> Role:
    match labels.get("role"):
        case "prefill" | "decode" as told:
            return told
    return "both"


def _figures(views: Sequence[EngineView]) -> dict[str, Figure]:
    return {name: _together(name, *told, views) for name, told in FIGURES.items()}


def _together(name: str, told: str, unit: Unit, views: Sequence[EngineView]) -> Figure:
    """Of all ranks: their sum, known only where it is known of each; what metrics tell is of the engine already."""
    figures = [view.figures.get(told, Figure(value=None, unit=unit, certainty="not_observable")) for view in views]
    if len(figures) == 1 or name in _OF_THE_ENGINE:
        return figures[0]
    certainty = min((figure.certainty for figure in figures), key=_WORST_FIRST.index)
    values = [figure.value for figure in figures if figure.value is not None]
    return Figure(
        value=sum(values) if len(values) == len(figures) else None,
        unit=unit,
        certainty=certainty,
        taints=tuple(dict.fromkeys(taint for figure in figures for taint in figure.taints)),
    )
