"""`/api/blocks/{id}`: one block in full, with what happened to it, and the chain of hashes through it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from kvxray_backend.block_types import BlockView, ChainView
from kvxray_backend.event_reader import block_history
from kvxray_backend.live_state import LiveState
from kvxray_backend.prefix_chain import chain_through
from kvxray_backend.routes.dependencies import BackendDep, StateDep, not_joined
from kvxray_backend.routes.errors import ApiError
from kvxray_backend.views import block_view

router = APIRouter(tags=["state"])


@router.get("/blocks/{block_id}")
def block(
    backend: BackendDep,
    state: StateDep,
    block_id: Annotated[int, Path(description="Id of the block.")],
    history: Annotated[int, Query(ge=0, le=200, description="How many of its last events to give.")] = 40,
) -> BlockView:
    """State, references, holders, hash, age and history of a block."""
    rows = block_history(backend, state, block_id, history) if history and block_id >= 0 else []
    view = block_view(state, block_id, rows)
    if view is not None:
        return view
    raise _no_block(state, block_id)


@router.get("/blocks/{block_id}/chain")
def chain(state: StateDep, block_id: Annotated[int, Path(description="Id of the block.")]) -> ChainView:
    """The blocks of the prompt up to this one, and those that go on from it."""
    with state.lock:
        if state.block_map is None or not 0 <= block_id < state.block_map.num_blocks:
            raise _no_block(state, block_id)
        before, after = chain_through(state.block_map, block_id)
    return ChainView(block_id=block_id, before=before, after=after)


def _no_block(state: LiveState, block_id: int) -> ApiError:
    if state.block_map is None:
        return not_joined(state)
    return ApiError(404, f"The source {state.source} has no block {block_id}.")
