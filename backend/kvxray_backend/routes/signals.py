"""`/api/signals` and `/api/signals/course`: what the metrics of an engine tell, now, then, and over a stretch."""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import ceil
from typing import Annotated

from fastapi import APIRouter, Query

from kvxray_backend.backend import Backend
from kvxray_backend.metrics.ratios import RATIOS, signals_of
from kvxray_backend.metrics.signals import SIGNALS
from kvxray_backend.metrics.state import MetricsState, metrics_state
from kvxray_backend.moments import Moment, iso_time_or_none
from kvxray_backend.observed.engine import ObservedEngine
from kvxray_backend.routes.dependencies import BackendDep, MomentDep
from kvxray_backend.routes.errors import ApiError
from kvxray_backend.signal_course import MAX_BUCKETS, course, step_for
from kvxray_backend.signal_history import MAX_READ
from kvxray_backend.signals_types import SignalsCourseView, SignalsStatusView, SignalsView
from kvxray_backend.signals_view import (
    WINDOW_S,
    Now,
    Reading,
    course_view,
    makes,
    now_of,
    topics,
    window_of,
)

router = APIRouter(tags=["signals"])

MAX_SIGNALS = 100
LONGEST_S = MAX_READ * 60
SHORTEST_S = 60
EngineName = Annotated[
    str | None, Query(max_length=512, description="Name of the engine; the first one with metrics when left out.")
]


@dataclass(frozen=True, slots=True)
class _Told:
    """Of one engine: how reading goes, and what the last page told. `read_s`: seconds between readings."""

    name: str
    state: MetricsState
    now: dict[str, Now]
    make: str = ""
    pages: int = 0
    bad_lines: int = 0
    left_out: int = 0
    read_s: float = 0.0


@router.get("/signals")
def signals(
    backend: BackendDep,
    moment: MomentDep,
    engine: EngineName = None,
    whole: Annotated[bool, Query(alias="all", description="Also signals that it does not tell.")] = False,
) -> SignalsView:
    """All that the metrics of an engine tell, with what each is read from."""
    told = _told(backend, engine)
    at_s = told.state.last_s if moment.is_live else _seconds(moment)
    window_s = max(WINDOW_S, 3 * told.read_s)
    window = window_of(backend.signals.between(told.name, at_s - window_s, at_s)) if at_s is not None else window_of([])
    reading = Reading(window, told.now if moment.is_live else {})
    state = told.state
    return SignalsView(
        engine=told.name,
        at=_time(at_s),
        topics=topics(reading, with_untold=whole),
        status=SignalsStatusView(
            state=state.state,
            sentence=state.sentence,
            last=_time(state.last_s),
            stale=state.is_stale,
            make=told.make,
            pages=told.pages,
            bad_lines=told.bad_lines,
            left_out=told.left_out,
            window_s=window_s,
        ),
    )


@router.get("/signals/course")
def signals_course(
    backend: BackendDep,
    signals: Annotated[str, Query(max_length=8_000, description="Names of signals and ratios, with commas between.")],
    engine: EngineName = None,
    start: Annotated[
        str | None, Query(alias="from", description="ISO-8601; an hour before the end if left out.")
    ] = None,
    to: Annotated[str | None, Query(description="ISO-8601; now if left out.")] = None,
    step: Annotated[int | None, Query(ge=1, le=86_400, description="Seconds of a bucket; fitting if left out.")] = None,
    heat: Annotated[bool, Query(description="With the buckets of histograms.")] = False,
    fit: Annotated[bool, Query(description="Begin with the first reading, where that is later.")] = False,
) -> SignalsCourseView:
    """Signals over a stretch: rates, quantiles and ratios bucket by bucket, and holes where nothing was read."""
    names = _names(signals)
    told = _told(backend, engine)
    to_s = _seconds(Moment.parse(to)) if to is not None else time.time()
    from_s = _seconds(Moment.parse(start)) if start is not None else to_s - 3_600
    if not 0 < to_s - from_s <= LONGEST_S:
        raise ApiError(400, f"Ask for a stretch of up to {LONGEST_S // 86_400} days that begins before it ends.")
    found = backend.signals.between(told.name, from_s, to_s, signals_of(names))
    if fit and found:
        from_s = max(from_s, min(found[0].at_s - found[0].seconds, to_s - SHORTEST_S))
    step_s = step or step_for(found, from_s, to_s)
    if ceil((to_s - from_s) / step_s) >= MAX_BUCKETS:
        raise ApiError(400, f"That would be more than {MAX_BUCKETS:,} buckets; ask for a longer step.")
    return course_view(told.name, course(found, names, from_s, to_s, step_s), heat=heat)


def _told(backend: Backend, name: str | None) -> _Told:
    watched = _watched(backend, name)
    if watched is not None:
        return _of_watched(watched)
    if name is None:
        # No question for any engine by its name: that there is none is an answer.
        name = next(iter(backend.sources), "")
    if not name:
        sentence = "No engine is watched; attach one, or start kvxray observe."
    elif name in backend.sources:
        sentence = f"{name[:80]} tells of its blocks itself; no metrics of it are read."
    elif backend.signals.is_known(name):
        sentence = f"{name[:80]} is not watched any more; what its metrics told is kept."
    else:
        raise ApiError(404, f"There is no engine {name[:80]!r}; /api/engines lists them.")
    return _Told(name, MetricsState("none", sentence), {})


def _watched(backend: Backend, name: str | None) -> ObservedEngine | None:
    if name is not None:
        found = backend.observed.rank(name)
        return found[0] if found is not None else None
    engines = backend.observed.all
    return next((one for one in engines if one.watch is not None), next(iter(engines), None))


def _of_watched(engine: ObservedEngine) -> _Told:
    spec, status = engine.spec, engine.metrics_status
    is_read = bool(spec.metrics or spec.prometheus)
    state = metrics_state(is_read=is_read, status=status, every_s=spec.every_s, now_s=time.time())
    with engine.lock:
        book = engine.watch.book if engine.watch is not None else None
        if book is None or book.last_s is None:
            return _Told(spec.name, state, {}, read_s=spec.every_s)
        return _Told(
            spec.name,
            state,
            now_of(book),
            makes(book),
            status.num_pages,
            status.num_bad_lines,
            book.num_series_left_out,
            spec.every_s,
        )


def _names(text: str) -> list[str]:
    names = list(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))
    unknown = [name for name in names if name not in SIGNALS and name not in RATIOS]
    if unknown:
        raise ApiError(400, f"There is no signal {unknown[0][:80]!r}; docs/signals.md lists them.")
    if not 1 <= len(names) <= MAX_SIGNALS:
        raise ApiError(400, f"Ask for 1 to {MAX_SIGNALS} signals at once.")
    return names


def _seconds(moment: Moment) -> float:
    if moment.is_live:
        return time.time()
    if moment.t_ns is None:
        raise ApiError(400, "Metrics have times and no event numbers; give an ISO-8601 time.")
    return moment.t_ns / 1e9


def _time(at_s: float | None) -> str | None:
    return iso_time_or_none(round(at_s * 1e9)) if at_s is not None else None
