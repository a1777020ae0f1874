"""The answer of `/api/residency`: what is cached of one source at one moment, with figures, places and explanations."""

from __future__ import annotations

from dataclasses import dataclass

from kvxray_backend.coverage import Known
from kvxray_backend.figure import Figure
from kvxray_backend.moments import LIVE, iso_time_or_none
from kvxray_backend.observed.engine import ObservedRank
from kvxray_backend.residency.answers import MetricsStateView, ResidencyView
from kvxray_backend.residency.engine_signals import NO_METRICS, metrics_view, signal_figures, told_signals, told_then
from kvxray_backend.residency.explanations import explanations
from kvxray_backend.residency.figures import residency_figures, since_of
from kvxray_backend.residency.foreign_source import ForeignMoment
from kvxray_backend.residency.places import descriptor_view, places_view
from kvxray_backend.told_findings import the_most_telling


@dataclass(frozen=True, slots=True)
class Losses:
    """What was lost or odd in a source's batches; None of the past, or where nobody listens."""

    gaps: int | None = None
    late: int | None = None
    bad: int | None = None


def residency_view(moment: ForeignMoment) -> ResidencyView:
    """Locks the engine for a moment."""
    signals, metrics, losses = _beside(moment)
    figures = residency_figures(moment, signals)
    newest = sorted(moment.findings, key=lambda finding: finding.time_ns, reverse=True)
    return ResidencyView(
        source=moment.source.name,
        engine=moment.source.engine_name,
        make=moment.source.make,
        kind="metrics" if moment.source.kind == "metrics" else "hashes",
        at=moment.at,
        time=iso_time_or_none(moment.columns.t_ns if moment.columns is not None else None),
        epoch=moment.epoch,
        seq=moment.seq,
        state=moment.state,
        since=iso_time_or_none(moment.since_ns),
        known_since=since_of(moment),
        trouble=trouble_of(moment),
        gaps=losses.gaps,
        late=losses.late,
        bad_messages=losses.bad,
        metrics=metrics,
        descriptor=descriptor_view(moment),
        places=places_view(moment),
        figures=figures,
        explanations=explanations(moment, figures),
        findings=the_most_telling(newest),
        num_findings=len(newest),
    )


def _beside(moment: ForeignMoment) -> tuple[dict[str, Figure], MetricsStateView, Losses]:
    """What metrics tell, and what is counted of the stream, which only the present has."""
    engine, rank = moment.source.engine, moment.source.rank
    if engine is None or moment.at != LIVE:
        return *told_then(moment), Losses()
    with engine.lock:
        losses = Losses() if rank is None else _losses_of(rank)
        return signal_figures(engine), metrics_view(engine), losses


def _losses_of(rank: ObservedRank) -> Losses:
    times = rank.followed.findings.times
    return Losses(times["seq_gap"], times["late_batch"], times["unknown_or_partial_event"])


def trouble_of(moment: ForeignMoment) -> str:
    """Why nothing can be heard of it now; empty of the past."""
    engine = moment.source.engine
    return engine.trouble if engine is not None and moment.at == LIVE else ""


def known_of(moment: ForeignMoment) -> Known:
    """What the coverage of a source follows from. Locks its engine for a moment."""
    engine, columns = moment.source.engine, moment.columns
    signals: frozenset[str] = frozenset()
    metrics = NO_METRICS
    if engine is not None:
        with engine.lock:
            signals, metrics = told_signals(engine), metrics_view(engine)
    return Known(
        kind=moment.source.kind,
        is_heard=columns is not None,
        is_whole=columns is not None and columns.is_whole,
        tells_reuse=columns is not None and bool(columns.reuses.any()),
        metrics=metrics.state,
        signals=signals,
        has_capacity=moment.capacity is not None,
        findings=moment.findings,
        role=engine.spec.role if engine is not None else "both",
    )
