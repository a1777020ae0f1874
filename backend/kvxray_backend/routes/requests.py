"""`/api/requests`: who uses the cache; and, from the engine itself, what a request is generating."""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import quote

import httpx2
from fastapi import APIRouter, Depends, Path, Query, Request
from kvxray_engine.stream.schema import RequestStatus
from pydantic import BaseModel, ValidationError

from kvxray_backend.api_types import RequestsView, RequestView, TextView
from kvxray_backend.request_table_view import request_view, requests_view
from kvxray_backend.routes.dependencies import MomentDep, SourceDep, StateDep, not_joined
from kvxray_backend.routes.errors import ApiError

router = APIRouter(tags=["requests"])

MAX_TEXT_BYTES: Final = 1 << 20

MAX_ID_LENGTH: Final = 512
"""Characters of a request's id: more than any engine gives, and in an address still no trouble."""

_InPath = Annotated[str, Path(max_length=MAX_ID_LENGTH, description="Id of the request; it may hold slashes.")]
_InQuery = Annotated[
    str | None,
    Query(
        max_length=MAX_ID_LENGTH,
        description="The id in place of the one in the path, which cannot carry every id: not .., nor a line break.",
    ),
]


def _named(request_id: _InPath, id: _InQuery = None) -> str:
    return request_id if id is None else id


RequestId = Annotated[str, Depends(_named)]


class EngineText(BaseModel):
    """What the engine's API answers for a request's text."""

    text: str
    finished: bool = False


@router.get("/requests")
def requests(
    state: StateDep,
    limit: Annotated[int, Query(ge=1, le=1000, description="At most so many.")] = 100,
    status: Annotated[str | None, Query(description="Only those of this status.")] = None,
) -> RequestsView:
    """The table of requests."""
    if status is not None and status not in RequestStatus.__members__:
        raise ApiError(400, f"Write status as one of {', '.join(RequestStatus.__members__)}, not {status[:40]!r}.")
    with state.lock:
        if state.block_map is None:
            raise not_joined(state)
        return requests_view(state, limit, RequestStatus[status] if status else None)


# Before the route below, whose id would swallow the last part of the path.
@router.get("/requests/{request_id:path}/text")
async def request_text(request: Request, source: SourceDep, moment: MomentDep, request_id: RequestId) -> TextView:
    """The text that a request has generated so far; asked of the engine, never stored: there is none of the past."""
    if not moment.is_live:
        raise ApiError(400, "Ask for the text with at=live: what requests generate is not stored.")
    api = source.spec.api if source.spec is not None else None
    if api is None:
        raise ApiError(404, f"The source {source.live.source} has no API that could tell the text.")
    url = f"{api}/requests/{quote(request_id, safe='')}/text"
    told = EngineText.model_validate(await _ask(request.app.state.engine_http, url, request_id))
    return TextView(request_id=request_id, text=told.text, finished=told.finished)


@router.get("/requests/{request_id:path}")
def one_request(state: StateDep, request_id: RequestId) -> RequestView:
    """One request and the blocks it holds."""
    with state.lock:
        if state.block_map is None:
            raise not_joined(state)
        view = request_view(state, request_id)
    if view is None:
        raise ApiError(404, f"The source {state.source} has no request {request_id[:80]!r} at that moment.")
    return view


async def _ask(http: httpx2.AsyncClient, url: str, request_id: str) -> object:
    try:
        async with http.stream("GET", url) as response:
            if response.status_code == 404:
                raise ApiError(404, f"The engine no longer has the text of {request_id[:80]!r}.")
            body = bytearray()
            async for part in response.aiter_bytes():
                body += part
                if len(body) > MAX_TEXT_BYTES:
                    raise ApiError(503, "The engine's answer is too long to show.")
        if response.status_code != 200:
            raise ApiError(503, f"The engine answered {response.status_code} for the text.")
        return EngineText.model_validate_json(bytes(body))
    except httpx2.InvalidURL as error:
        raise ApiError(404, f"The engine cannot be asked for a request named {request_id[:80]!r}.") from error
    except httpx2.HTTPError as error:
        raise ApiError(503, "The engine's API does not answer.") from error
    except ValidationError as error:
        raise ApiError(503, "The engine's API answered something that is no text of a request.") from error
