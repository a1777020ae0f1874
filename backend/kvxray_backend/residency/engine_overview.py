"""One source that tells of hashes, or of metrics alone, on the overview: its figures, and the verdict on it."""

from __future__ import annotations

from kvxray_backend.analysis.verdict import judge
from kvxray_backend.analysis.verdict_of_router import RouterSigns, judge_router
from kvxray_backend.analysis.verdict_signs import Signs
from kvxray_backend.figure import Figure
from kvxray_backend.moments import LIVE, iso_time_or_none
from kvxray_backend.overview_figures import not_told
from kvxray_backend.overview_types import EngineView
from kvxray_backend.overview_verdict import verdict_view
from kvxray_backend.residency.answers import MetricsStateView
from kvxray_backend.residency.engine_signals import metrics_view, signal_figures, told_then
from kvxray_backend.residency.figures import residency_figures
from kvxray_backend.residency.foreign_source import ForeignMoment, ForeignSource
from kvxray_backend.residency.source_view import labels_of
from kvxray_backend.residency.view import trouble_of
from kvxray_backend.router_signals import router_signs
from kvxray_backend.sources.foreign.media import tier_of
from kvxray_backend.told_findings import the_most_telling


def foreign_engine_view(moment: ForeignMoment) -> EngineView:
    """Locks its engine for a moment."""
    source, columns = moment.source, moment.columns
    signals, metrics = _of_metrics(moment)
    figures = overview_figures_of(moment, signals)
    signs = Signs(
        moment.state, figures, moment.findings, kind=source.kind, metrics=metrics.state, trouble=trouble_of(moment)
    )
    verdict = judge_router(signs, _router_signs(moment)) if source.make == "router" else judge(signs)
    descriptor = columns.descriptor if columns is not None else None
    newest = sorted(moment.findings, key=lambda finding: finding.time_ns, reverse=True)
    return EngineView(
        source=source.name,
        engine=source.engine_name,
        make=source.make,
        kind=source.kind,
        labels=_labels(source),
        model=_model(moment),
        state=moment.state,
        since=iso_time_or_none(moment.since_ns),
        at=moment.at,
        time=iso_time_or_none(columns.t_ns) if columns is not None else None,
        epoch=moment.epoch,
        verdict=verdict_view(verdict, figures, moment.findings),
        usable_blocks=moment.capacity,
        block_size=(descriptor.block_size or None) if descriptor is not None else None,
        bytes_per_block=None,
        media=sorted({tier_of(pool.name) or pool.name for pool in descriptor.pools}) if descriptor else [],
        counts={},
        figures=figures,
        gaps=_times(moment, "seq_gap"),
        drops=None,
        bad_messages=_times(moment, "unknown_or_partial_event"),
        findings=the_most_telling(newest),
        num_findings=len(newest),
        lately=[],
    )


def absent_view(source: ForeignSource, why: str) -> EngineView:
    """At a moment of which nothing can be told. why: one sentence."""
    moment = ForeignMoment(source, "", "past", None, None, None, 0, None, ())
    figures = overview_figures_of(moment, {})
    verdict = judge(Signs("past", figures, absence=why, kind=source.kind))
    view = foreign_engine_view(moment)
    return view.model_copy(update={"verdict": verdict_view(verdict, figures, ())})


def overview_figures_of(moment: ForeignMoment, signals: dict[str, Figure]) -> dict[str, Figure]:
    """Every figure of the overview: of metrics where they are told, of events where those tell more; others are not
    observable.
    """
    told = residency_figures(moment, signals, with_chains=False)
    return {**not_told(), **signals, **{name: figure for name, figure in told.items() if name not in signals}}


def _of_metrics(moment: ForeignMoment) -> tuple[dict[str, Figure], MetricsStateView]:
    engine = moment.source.engine
    if engine is None or moment.at != LIVE:
        return told_then(moment)
    with engine.lock:
        return signal_figures(engine), metrics_view(engine)


def _router_signs(moment: ForeignMoment) -> RouterSigns:
    engine = moment.source.engine
    if engine is None or moment.at != LIVE:
        return moment.metrics.router if moment.metrics is not None else RouterSigns()
    with engine.lock:
        return router_signs(engine.watch.book) if engine.watch is not None else RouterSigns()


def _times(moment: ForeignMoment, kind: str) -> int:
    """How often that was found since it is followed; of the past, of what was open then."""
    engine, rank = moment.source.engine, moment.source.rank
    if engine is None or rank is None or moment.at != LIVE:
        return sum(finding.kind == kind for finding in moment.findings)
    with engine.lock:
        return rank.followed.findings.times[kind]


def _labels(source: ForeignSource) -> dict[str, str]:
    if source.engine is None:
        return {}
    with source.engine.lock:
        return labels_of(source.engine, source.rank)


def _model(moment: ForeignMoment) -> str:
    """As its labels or its events tell."""
    engine = moment.source.engine
    told = engine.spec.labels.get("model", "") if engine is not None else ""
    return told or (moment.columns.descriptor.model if moment.columns is not None else "")
