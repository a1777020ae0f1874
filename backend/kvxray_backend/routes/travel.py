"""`/api/step`, `/api/diff`, `/api/timeline` and `/api/course`: to other moments, what differs, and whole stretches."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Final, Literal

import numpy as np
from fastapi import APIRouter, Query
from kvxray_storage.gap_history import gaps_between
from kvxray_storage.history import GapRow

from kvxray_backend.api_types import MomentView
from kvxray_backend.backend import Backend, Source
from kvxray_backend.course import Course, course
from kvxray_backend.course_types import CourseView, WindowsView
from kvxray_backend.diff_view import diff_view
from kvxray_backend.history_types import DiffView, GapView, TimelineView
from kvxray_backend.moments import Moment, Point, iso_time
from kvxray_backend.residency.desk import ResidencyDesk
from kvxray_backend.residency.foreign_source import ForeignSource
from kvxray_backend.routes.dependencies import (
    AnySourceDep,
    BackendDep,
    DeskDep,
    SourceDep,
    name_of,
    state_of,
    tells_no_blocks,
)
from kvxray_backend.routes.errors import ApiError
from kvxray_backend.timeline import F8, MAX_POINTS, Buckets, timeline

router = APIRouter(tags=["travel"])

MAX_STEPS = 1_000_000
MAX_GAPS = 200
OF_HASHES: Final = frozenset(
    f"{name}{reading}" for name in ("cached", "stores_per_s", "evictions_per_s") for reading in ("", "_min", "_max")
)
Beginning = Annotated[str | None, Query(alias="from", description="Its beginning; else the oldest kept.")]
End = Annotated[str | None, Query(description="Its end; else the newest.")]


@router.get("/step")
def step(
    backend: BackendDep,
    desk: DeskDep,
    source: AnySourceDep,
    at: Annotated[str, Query(description="The moment to start from: EPOCH.SEQ or an ISO-8601 time.")],
    by: Annotated[Literal["event", "step"], Query(description="What to count: events, or steps of the engine.")],
    n: Annotated[int, Query(ge=-MAX_STEPS, le=MAX_STEPS, description="How many; below 0 goes back.")] = 1,
) -> MomentView:
    """The moment so many events or steps later or earlier; the epoch's first or last where there are fewer."""
    moment = Moment.parse(at)
    if moment.is_live:
        raise ApiError(400, "Name the moment to start from as EPOCH.SEQ or a time: the present moves on.")
    if isinstance(source, ForeignSource):
        return desk.step(source, moment, by, n)
    backend.settle(source, moment)
    return backend.past.step(source.live.source, moment, by, n)


@router.get("/diff")
def difference(
    backend: BackendDep,
    source: SourceDep,
    start: Annotated[str, Query(alias="from", description="The one moment: EPOCH.SEQ, a time, or live.")],
    to: Annotated[str, Query(description="The other, of the same epoch.")],
    limit: Annotated[int, Query(ge=0, le=100_000, description="Block ids named of each kind, at most.")] = 1000,
) -> DiffView:
    """What became different between two moments: blocks by kind of change, and who gained and lost holds."""
    before, after = (state_of(backend, source, Moment.parse(text)) for text in (start, to))
    if before.epoch != after.epoch:
        raise ApiError(400, "The two moments are of different epochs: block ids mean nothing across a restart.")
    try:
        return diff_view(before, after, limit)
    except ValueError as error:
        raise ApiError(400, str(error)) from error


@router.get("/timeline")
def whole_timeline(
    backend: BackendDep,
    desk: DeskDep,
    source: AnySourceDep,
    start: Beginning = None,
    to: End = None,
    points: Annotated[int, Query(ge=1, le=MAX_POINTS, description="About so many points.")] = 600,
) -> TimelineView:
    """The figures of the page over time, gaps and epochs marked; what happened longer ago than events are kept, too."""
    name, stretch = name_of(source), _stretch(backend, desk, source, start, to)
    told = timeline(backend.database, name, *stretch, points)
    return TimelineView(**_over_time(backend, name, stretch, told), series=_listed(_told(source, told.series)))


@router.get("/course")
def whole_course(
    backend: BackendDep,
    desk: DeskDep,
    source: AnySourceDep,
    start: Beginning = None,
    to: End = None,
    points: Annotated[int, Query(ge=1, le=MAX_POINTS, description="About so many points.")] = 300,
) -> CourseView:
    """The figures over time as the page would have told them then, with the lowest and highest of each bucket."""
    name, stretch = name_of(source), _stretch(backend, desk, source, start, to)
    told = course(backend.database, name, *stretch, points)
    windows = WindowsView(**asdict(told.windows))
    return CourseView(
        **_over_time(backend, name, stretch, told), windows=windows, series=_listed(_told(source, told.series))
    )


def _told(source: Source | ForeignSource, series: dict[str, F8]) -> dict[str, F8]:
    """Of an engine that tells of hashes only what its events tell: the rest was not counted, and is not 0."""
    if isinstance(source, Source):
        return series
    return {name: values for name, values in series.items() if name in OF_HASHES}


def _stretch(
    backend: Backend, desk: ResidencyDesk, source: Source | ForeignSource, start: str | None, to: str | None
) -> tuple[int, int]:
    """From when to when, in wall ns: what is asked for, else all that is kept."""
    if isinstance(source, ForeignSource) and source.kind == "metrics":
        raise tells_no_blocks(source)
    name = name_of(source)
    first, last = (Moment.parse(text) if text is not None else None for text in (start, to))
    if isinstance(source, Source):
        backend.settle(source, last or Moment(t_ns=source.live.state_ns))
    t0_ns, t1_ns = backend.past.span(name)
    if first is not None:
        t0_ns = _time_of(backend, desk, source, first) if first.begin_ns is None else first.begin_ns
    t1_ns = _time_of(backend, desk, source, last) if last is not None else t1_ns
    if t1_ns < t0_ns:
        raise ApiError(400, "The end of the timeline lies before its beginning.")
    return t0_ns, t1_ns


def _time_of(backend: Backend, desk: ResidencyDesk, source: Source | ForeignSource, moment: Moment) -> int:
    if isinstance(source, ForeignSource) and moment.point is not None:
        return desk.at(source, moment).now_ns
    return backend.past.time_of(name_of(source), moment)


def _over_time(backend: Backend, name: str, stretch: tuple[int, int], told: Buckets | Course) -> dict[str, Any]:
    """What either says of a stretch beside its figures."""
    t0_ns, t1_ns = stretch
    num_gaps, gaps = gaps_between(backend.database, name, t0_ns, t1_ns, MAX_GAPS)
    return {
        "begin": iso_time(t0_ns),
        "end": iso_time(t1_ns),
        "seconds": told.seconds,
        "t": told.t_s.tolist(),
        "epoch": told.epoch.tolist(),
        "gaps": [_gap_view(epoch, gap) for epoch, gap in gaps],
        "num_gaps": num_gaps,
    }


def _listed(series: dict[str, F8]) -> dict[str, list[float | None]]:
    return {
        key: [None if np.isnan(value) else value for value in values.round(9).tolist()]
        for key, values in series.items()
    }


def _gap_view(epoch: int, gap: GapRow) -> GapView:
    return GapView(
        from_seq=str(Point(epoch, gap.seq0)),
        to_seq=str(Point(epoch, gap.seq1)) if gap.seq1 is not None and gap.seq1 >= 0 else None,
        time=iso_time(gap.at_ns),
        reason=gap.reason,
        repaired=gap.repaired_ns is not None,
    )
