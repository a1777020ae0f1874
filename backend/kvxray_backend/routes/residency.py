"""`/api/residency`: what is cached of engines that tell of hashes: in numbers, as a map of chains, and hash by hash."""

from __future__ import annotations

import asyncio
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response

from kvxray_backend.residency.answers import ResidencyHashView, ResidencyView
from kvxray_backend.residency.hash_view import HashQuestion
from kvxray_backend.residency.map_frame import map_frame
from kvxray_backend.residency.view import residency_view
from kvxray_backend.routes.dependencies import DeskDep, ForeignDep, MomentDep
from kvxray_backend.routes.errors import ApiError
from kvxray_backend.snapshot_cache import choose_encoding, compress

router = APIRouter(tags=["residency"])

MAX_HASH_DIGITS: Final = 128


@router.get("/residency")
def residency(desk: DeskDep, source: ForeignDep, moment: MomentDep) -> ResidencyView:
    """What is cached in numbers, place by place, with what spoils them and why two of them may differ."""
    return residency_view(desk.at(source, moment))


@router.get(
    "/residency/map",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}, "description": "All that is cached, by its chains."}},
)
async def residency_map(request: Request, desk: DeskDep, source: ForeignDep, moment: MomentDep) -> Response:
    """All that is cached in the order of its chains, as binary columns; as many as a map has room for."""
    then = await asyncio.to_thread(desk.at, source, moment)
    if source.kind == "metrics":
        raise ApiError(409, f"The engine {source.name} is known by its metrics alone: they name no hashes.")
    if then.picture is None:
        raise ApiError(503, f"Nothing has been heard of the source {source.name} yet; try again in a moment.")
    encoding = choose_encoding(request.headers.get("accept-encoding", ""))
    frame = await asyncio.to_thread(map_frame, then.picture, then.epoch or 0, then.now_ns)
    headers = {"cache-control": "no-store", "vary": "Accept-Encoding"}
    if encoding != "identity":
        headers["content-encoding"] = encoding
    body = await asyncio.to_thread(compress, frame, encoding)
    return Response(body, media_type="application/octet-stream", headers=headers)


@router.get("/residency/hash")
def residency_hash(
    desk: DeskDep,
    source: ForeignDep,
    moment: MomentDep,
    hash: Annotated[str | None, Query(max_length=MAX_HASH_DIGITS, description="The hash, in hexadecimal.")] = None,
    ordinal: Annotated[int | None, Query(ge=0, lt=2**31, description="Or its ordinal, as the map has it.")] = None,
    history: Annotated[int, Query(ge=0, le=200, description="How many of its stored events to give.")] = 0,
) -> ResidencyHashView:
    """One hash in full: where it is, its chain, its times and what was found about it."""
    question = HashQuestion(_bytes_of(hash) if hash is not None else None, ordinal)
    if question.block_hash is None and ordinal is None:
        raise ApiError(400, "Name the hash as hash=HEX, or as ordinal=N.")
    found = desk.hash(source, moment, question, history)
    if found is None:
        raise ApiError(404, f"The source {source.name} knows no such hash at that moment.")
    return found


def _bytes_of(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise ApiError(400, f"Write the hash in hexadecimal, not {text[:40]!r}.") from None
