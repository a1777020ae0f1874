"""`/api/events`: what happened, one event after the other."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from kvxray_backend.api_types import EventsView
from kvxray_backend.backend import Backend
from kvxray_backend.event_reader import events_from, events_until, newest_events
from kvxray_backend.moments import Moment, Point
from kvxray_backend.residency import events as of_hashes
from kvxray_backend.residency.desk import ResidencyDesk
from kvxray_backend.residency.foreign_source import ForeignSource
from kvxray_backend.routes.dependencies import AnySourceDep, BackendDep, DeskDep, MomentDep, tells_no_blocks
from kvxray_backend.views import event_views

router = APIRouter(tags=["events"])


@router.get("/events")
def events(
    backend: BackendDep,
    desk: DeskDep,
    source: AnySourceDep,
    moment: MomentDep,
    start: Annotated[str | None, Query(alias="from", description="EPOCH.SEQ to begin at; else the newest.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="At most so many.")] = 100,
) -> EventsView:
    """Events in the order they happened, from the event log, the newest from memory; also of epochs that are over.

    Without `from` the last up to the moment.
    """
    if isinstance(source, ForeignSource):
        return _of_hashes(backend, desk, source, moment, Point.parse(start) if start is not None else None, limit)
    if start is not None:
        first = Point.parse(start)
        rows = events_from(backend, source, first.epoch, first.seq, limit)
        following = Point(first.epoch, rows[-1].seq + 1) if rows else first
        return EventsView(events=event_views(rows, first.epoch), next=str(following))
    found = newest_events(backend, source, limit) if moment.is_live else events_until(backend, source, moment, limit)
    if found is None:
        return EventsView(events=[], next=None)
    epoch, rows = found
    return EventsView(events=event_views(rows, epoch), next=str(Point(epoch, rows[-1].seq + 1 if rows else 0)))


def _of_hashes(
    backend: Backend, desk: ResidencyDesk, source: ForeignSource, moment: Moment, first: Point | None, limit: int
) -> EventsView:
    if source.kind == "metrics":
        raise tells_no_blocks(source)
    if first is not None:
        told = of_hashes.events_from(backend, source, first, limit)
        following = Point(first.epoch, told.rows[-1].seq + 1) if told.rows else first
    else:
        found = desk.events_until(source, moment, limit)
        if found is None:
            return EventsView(events=[], next=None)
        told = found
        following = Point(told.epoch, told.rows[-1].seq + 1 if told.rows else 0)
    views = of_hashes.event_views(backend, desk.around(source, told.epoch, moment), told)
    return EventsView(events=views, next=str(following))
