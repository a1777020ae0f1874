"""`/api/events`: what happened, one event after the other."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from kvxray_backend.api_types import EventsView
from kvxray_backend.event_reader import events_from, events_until, newest_events
from kvxray_backend.moments import Point
from kvxray_backend.routes.dependencies import BackendDep, MomentDep, SourceDep
from kvxray_backend.views import event_views

router = APIRouter(tags=["events"])


@router.get("/events")
def events(
    backend: BackendDep,
    source: SourceDep,
    moment: MomentDep,
    start: Annotated[str | None, Query(alias="from", description="EPOCH.SEQ to begin at; else the newest.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="At most so many.")] = 100,
) -> EventsView:
    """Events in the order they happened, from the event log, the newest from memory; also of epochs that are over.

    Without `from` the last up to the moment.
    """
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
