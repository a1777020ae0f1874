"""`/api/hashes/{hash}` and `/api/requests/{id}/history`: what became of a hash, and of a request, over its epoch."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Path, Query
from kvxray_storage.hash_history import HashStay, hash_history
from kvxray_storage.request_history import find_requests, request_history

from kvxray_backend.api_types import EventsView
from kvxray_backend.backend import Backend, Source
from kvxray_backend.history_types import HashStaysView, HashStayView
from kvxray_backend.moments import Moment, Point
from kvxray_backend.routes.dependencies import BackendDep, MomentDep, SourceDep, not_joined
from kvxray_backend.routes.errors import ApiError
from kvxray_backend.routes.requests import RequestId
from kvxray_backend.views import event_views

router = APIRouter(tags=["requests"])

MAX_HASH_DIGITS: Final = 64

HashText = Annotated[str, Path(max_length=MAX_HASH_DIGITS, description="The hash, in hexadecimal.")]
Limit = Annotated[int, Query(ge=1, le=1000, description="At most so many, the newest.")]


@router.get("/hashes/{block_hash}")
def stays(
    backend: BackendDep, source: SourceDep, moment: MomentDep, block_hash: HashText, limit: Limit = 50
) -> HashStaysView:
    """Which blocks carried a hash, since when and until when, how often it was hit, and what took it away."""
    epoch, last_seq = _until(backend, source, moment)
    wanted = hash_of(block_hash)
    key = backend.past.epoch(source.live.source, epoch).key
    found = hash_history(backend.database, key, wanted, limit, last_seq) if wanted else []
    return HashStaysView(block_hash=block_hash, epoch=epoch, stays=[_stay_view(stay, epoch) for stay in found])


@router.get("/requests/{request_id:path}/history")
def events_of_request(
    backend: BackendDep, source: SourceDep, moment: MomentDep, request_id: RequestId, limit: Limit = 200
) -> EventsView:
    """The last events that name a request, in the order they happened; of the newest with that id in the epoch."""
    epoch, last_seq = _until(backend, source, moment)
    key = backend.past.epoch(source.live.source, epoch).key
    found = [ordinal for of, ordinal in find_requests(backend.database, key.source_id, request_id) if of == key]
    if not found:
        raise ApiError(404, f"Nothing is stored of a request {request_id[:80]!r} in epoch {epoch}.")
    rows = request_history(backend.database, key, found[0], limit, last_seq)
    return EventsView(events=event_views(reversed(rows), epoch), next=None)


def hash_of(text: str) -> bytes:
    """The hash that a route was asked for."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise ApiError(400, f"Write the hash in hexadecimal, not {text[:40]!r}.") from None


def _until(backend: Backend, source: Source, moment: Moment) -> tuple[int, int | None]:
    """The epoch asked about, and the last event that counts; None: all that are stored."""
    if not moment.is_live:
        backend.settle(source, moment)
        point: Point = backend.past.point_of(source.live.source, moment)
        return point.epoch, point.seq
    if source.live.epoch is None:
        raise not_joined(source.live)
    return source.live.epoch, None


def _stay_view(stay: HashStay, epoch: int) -> HashStayView:
    since, *until = event_views([stay.since, *([stay.until] if stay.until is not None else [])], epoch)
    lost_after = None if stay.lost_after is None else str(Point(epoch, stay.lost_after))
    return HashStayView(
        block_id=stay.block_id, hits=stay.hits, since=since, until=until[0] if until else None, lost_after=lost_after
    )
