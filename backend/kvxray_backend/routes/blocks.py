"""`/api/blocks/{id}`: one block in full, with what happened to it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from kvxray_backend.api_types import BlockView
from kvxray_backend.event_reader import block_history
from kvxray_backend.routes.dependencies import BackendDep, MomentDep, SourceDep, not_joined
from kvxray_backend.routes.errors import ApiError
from kvxray_backend.views import block_view

router = APIRouter(tags=["state"])


@router.get("/blocks/{block_id}")
def block(
    backend: BackendDep,
    source: SourceDep,
    at: MomentDep,
    block_id: Annotated[int, Path(description="Id of the block.")],
    history: Annotated[int, Query(ge=0, le=200, description="How many of its last events to give.")] = 40,
) -> BlockView:
    """State, references, holders, hash, age and history of a block."""
    rows = block_history(backend, source, block_id, history) if history and block_id >= 0 else []
    view = block_view(source.live, block_id, rows)
    if view is not None:
        return view
    if source.live.block_map is None:
        raise not_joined(source)
    raise ApiError(404, f"The source {source.live.source} has no block {block_id}.")
