"""`/api/live`: the WebSocket that keeps a page up to date."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from fastapi import APIRouter, WebSocket, WebSocketDisconnect

from kvxray_backend.backend import Backend
from kvxray_backend.residency.foreign_source import find_foreign
from kvxray_backend.routes.dependencies import find_source

router = APIRouter()

CLOSE_UNKNOWN_SOURCE: Final = 4404
CLOSE_NO_BLOCKS: Final = 4409
CLOSE_STARTING: Final = 1013


@router.websocket("/live")
async def live(websocket: WebSocket, source: str | None = None) -> None:
    """Summaries as text, deltas as binary frames, until the viewer goes."""
    # A viewer may be gone before it was let in; there is nobody to tell then.
    with contextlib.suppress(WebSocketDisconnect):
        await websocket.accept()
        backend = getattr(websocket.app.state, "backend", None)
        if not isinstance(backend, Backend):
            await websocket.close(CLOSE_STARTING, "Starting or stopping; connect again.")
            return
        # Whether it is stored is asked of the database.
        if await asyncio.to_thread(find_foreign, backend, source) is not None:
            await websocket.close(CLOSE_NO_BLOCKS, "This source tells of no blocks: ask /api/residency.")
            return
        found = find_source(backend, source)
        if found is None:
            await websocket.close(CLOSE_UNKNOWN_SOURCE, "There is no such source.")
            return
        await asyncio.to_thread(found.prepare)
        await found.feed.serve(websocket)
