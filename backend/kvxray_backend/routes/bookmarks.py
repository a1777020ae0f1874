"""`/api/bookmarks`: moments that somebody marked, with a note."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Body, Path
from kvxray_storage import bookmarks as stored
from pydantic import BaseModel, ConfigDict, Field

from kvxray_backend.history_types import BookmarksView, BookmarkView
from kvxray_backend.moments import Moment, Point, iso_time
from kvxray_backend.residency.foreign_source import ForeignSource
from kvxray_backend.routes.bodies import BoundedRoute
from kvxray_backend.routes.dependencies import AnySourceDep, BackendDep, DeskDep, name_of
from kvxray_backend.routes.errors import ApiError

router = APIRouter(tags=["bookmarks"], route_class=BoundedRoute)

MAX_BOOKMARKS: Final = 1000
MAX_NOTE: Final = 500


class NewBookmark(BaseModel):
    """What a bookmark is made of."""

    model_config = ConfigDict(extra="forbid")

    at: str = Field(max_length=80, description="The moment: EPOCH.SEQ or an ISO-8601 time.")
    note: str = Field(default="", max_length=MAX_NOTE, description="What there is to see.")


@router.get("/bookmarks")
def bookmarks(backend: BackendDep, source: AnySourceDep) -> BookmarksView:
    """The bookmarks of a source, the newest moment first."""
    found = stored.bookmarks(backend.database, name_of(source), MAX_BOOKMARKS)
    return BookmarksView(bookmarks=[_view(bookmark) for bookmark in found])


@router.post("/bookmarks", status_code=201)
def add(
    backend: BackendDep, desk: DeskDep, source: AnySourceDep, bookmark: Annotated[NewBookmark, Body()]
) -> BookmarkView:
    """Marks a moment that is stored."""
    moment = Moment.parse(bookmark.at)
    if moment.is_live:
        raise ApiError(400, "Name the moment as EPOCH.SEQ or a time: the present moves on.")
    name = name_of(source)
    if stored.count_bookmarks(backend.database, name) >= MAX_BOOKMARKS:
        raise ApiError(409, f"The source {name} has {MAX_BOOKMARKS} bookmarks already; remove some first.")
    if isinstance(source, ForeignSource):
        then = desk.at(source, moment)
        at, at_ns = then.at, then.now_ns
    else:
        state = backend.past_at(source, moment)
        at, at_ns = state.at, state.state_ns
    point = Point.parse(at)
    made = stored.add_bookmark(
        backend.database, name, point.epoch, point.seq, at_ns, bookmark.note, backend.clock.wall_ns()
    )
    return _view(made)


@router.delete("/bookmarks/{bookmark_id}", status_code=204)
def remove(
    backend: BackendDep, bookmark_id: Annotated[str, Path(max_length=64, description="Id of the bookmark.")]
) -> None:
    """Removes a bookmark."""
    if not stored.remove_bookmark(backend.database, bookmark_id):
        raise ApiError(404, "There is no such bookmark; it may have been removed already.")


def _view(bookmark: stored.Bookmark) -> BookmarkView:
    return BookmarkView(
        id=bookmark.id,
        source=bookmark.source,
        at=str(Point(bookmark.epoch, bookmark.seq)),
        time=iso_time(bookmark.at_ns),
        note=bookmark.note,
        created_at=iso_time(bookmark.created_ns),
    )
