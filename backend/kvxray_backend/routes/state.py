"""`/api/state`: the cache in numbers, and every block of it as one binary frame."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from kvxray_backend.api_types import StateView
from kvxray_backend.routes.dependencies import MomentDep, SourceDep, not_joined
from kvxray_backend.snapshot_cache import choose_encoding
from kvxray_backend.views import state_view

router = APIRouter(tags=["state"])


@router.get("/state")
def state(source: SourceDep, at: MomentDep) -> StateView:
    """Blocks by state and the figures made from them."""
    view = state_view(source.live)
    if view is None:
        raise not_joined(source)
    return view


@router.get(
    "/state/blocks",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}, "description": "A snapshot frame."}},
)
async def state_blocks(request: Request, source: SourceDep, at: MomentDep) -> Response:
    """Every block: the frame that the deltas of /api/live go on from."""
    encoding = choose_encoding(request.headers.get("accept-encoding", ""))
    found = await source.feed.snapshot(encoding)
    if found is None:
        raise not_joined(source)
    snapshot, body = found
    headers = {"etag": snapshot.etag(encoding), "cache-control": "no-cache", "vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    if encoding != "identity":
        headers["content-encoding"] = encoding
    return Response(body, media_type="application/octet-stream", headers=headers)
