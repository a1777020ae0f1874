"""`/api/state`: the cache in numbers, and every block of it as one binary frame."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from kvxray_backend.api_types import StateView, Summary
from kvxray_backend.backend import Backend, Source
from kvxray_backend.block_details import details_frame, details_with_sharers
from kvxray_backend.block_order_frame import order_frame
from kvxray_backend.live_state import LiveState
from kvxray_backend.moments import Moment
from kvxray_backend.routes.dependencies import BackendDep, MomentDep, SourceDep, StateDep, not_joined
from kvxray_backend.routes.errors import ApiError
from kvxray_backend.snapshot_cache import CachedSnapshot, Encoding, Make, choose_encoding, compress, snapshot_of
from kvxray_backend.views import state_view, summary

router = APIRouter(tags=["state"])

Present = Callable[[Encoding], Awaitable[tuple[CachedSnapshot, bytes] | None]]


@router.get("/state")
def state(state: StateDep) -> StateView:
    """Blocks by state and the figures made from them."""
    view = state_view(state)
    if view is None:
        raise not_joined(state)
    return view


@router.get("/summary")
def whole_summary(state: StateDep) -> Summary:
    """All that the page shows beside the map: what the live feed tells twice a second, at any moment."""
    return summary(state)


@router.get(
    "/state/blocks",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}, "description": "A snapshot frame."}},
)
async def state_blocks(request: Request, backend: BackendDep, source: SourceDep, moment: MomentDep) -> Response:
    """Every block: the frame that the deltas of /api/live go on from."""
    return await _frame(request, backend, source, moment, source.feed.snapshot, LiveState.snapshot_frame)


@router.get(
    "/state/details",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}, "description": "Ages and holders."}},
)
async def state_details(
    request: Request,
    backend: BackendDep,
    source: SourceDep,
    moment: MomentDep,
    sharers: Annotated[bool, Query(description="Tell also who holds blocks together.")] = False,
) -> Response:
    """How old every block is and who holds it: what the frames of the map do not carry."""
    if sharers:
        return await _frame(request, backend, source, moment, source.feed.details_with_sharers, details_with_sharers)
    return await _frame(request, backend, source, moment, source.feed.details, details_frame)


@router.get(
    "/state/order",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}, "description": "Blocks by their prefixes."}},
)
async def state_order(request: Request, backend: BackendDep, source: SourceDep, moment: MomentDep) -> Response:
    """All blocks in the order of their prefixes: those of one chain of hashes side by side."""
    return await _frame(request, backend, source, moment, source.feed.order, order_frame)


async def _frame(
    request: Request, backend: Backend, source: Source, moment: Moment, present: Present, make: Make
) -> Response:
    """A frame of all blocks, of the present from the cache, of the past made now; 304 to whoever has it already."""
    encoding = choose_encoding(request.headers.get("accept-encoding", ""))
    if moment.is_live:
        found = await present(encoding)
    else:
        past = await asyncio.to_thread(backend.past_at, source, moment)
        found = await asyncio.to_thread(snapshot_of, past, encoding, make)
    if found is None:
        raise not_joined(source.live)
    snapshot, body = found
    headers = {"etag": snapshot.etag(encoding), "cache-control": "no-cache", "vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    if encoding != "identity":
        headers["content-encoding"] = encoding
    return Response(body, media_type="application/octet-stream", headers=headers)


@router.get(
    "/state/delta",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}, "description": "A delta frame."}},
)
def state_delta(
    request: Request,
    backend: BackendDep,
    source: SourceDep,
    start: Annotated[str, Query(alias="from", description="The moment that the viewer shows.")],
    to: Annotated[str, Query(description="The moment that it is to show; it may be earlier.")],
) -> Response:
    """What differs between two moments of the past, as a frame for the map."""
    before, after = Moment.parse(start), Moment.parse(to)
    if before.is_live or after.is_live:
        raise ApiError(400, "Name two moments of the past; /api/live tells how the present goes on.")
    backend.past_at(source, after)
    encoding = choose_encoding(request.headers.get("accept-encoding", ""))
    body = compress(backend.past.delta(source.live.source, before, after), encoding)
    headers = {"cache-control": "no-store", "vary": "Accept-Encoding"}
    if encoding != "identity":
        headers["content-encoding"] = encoding
    return Response(body, media_type="application/octet-stream", headers=headers)
