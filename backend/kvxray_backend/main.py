"""The backend as one ASGI app: the page at the root, REST and WebSocket under /api, one gate before all. No globals."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib import metadata
from typing import Final

from fastapi import APIRouter, FastAPI, WebSocket
from fastapi.responses import PlainTextResponse, RedirectResponse, Response

from kvxray_backend.backend import Backend, check_can_start
from kvxray_backend.engine_http import engine_http
from kvxray_backend.page import HOST_CONFIG, Page, open_page, page_folder
from kvxray_backend.routes import blocks, docs, events, findings, health, live, requests, sources, state
from kvxray_backend.routes.assets import ComponentFiles
from kvxray_backend.routes.errors import ApiError, ErrorBody, install_error_handlers
from kvxray_backend.security import Gate
from kvxray_backend.settings import Settings

_EVERY_METHOD: Final = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


def create_app(settings: Settings) -> FastAPI:
    """Everything but the server. Starting the app opens the database, the sources and the page; stopping it closes
    them.
    """
    check_can_start(settings)
    page = open_page(settings)
    base = settings.base_path
    app = FastAPI(
        title="kvxray",
        version=metadata.version("kvxray"),
        description="What every block of a KV cache holds, who holds it and what leaks.",
        lifespan=_lifespan(settings, page),
        docs_url=None,
        redoc_url=None,
        openapi_url=f"{base}/api/openapi.json",
    )
    install_error_handlers(app)
    app.include_router(_api(), prefix=f"{base}/api")
    folder = page_folder()
    if folder is not None and (folder / "components").is_dir():
        app.mount(f"{base}/assets/kvxray", ComponentFiles(folder / "components"))
    _mount_page(app, page, base)
    app.add_middleware(Gate, settings=settings)
    return app


def _api() -> APIRouter:
    api = APIRouter(responses={"default": {"model": ErrorBody, "description": "One sentence that says what is wrong."}})
    for part in (health, sources, state, blocks, requests, events, findings, live, docs):
        api.include_router(part.router)
    # Last, so that it gets what nothing else wanted; the page below it would answer anything with itself.
    api.add_api_route("/{rest:path}", _no_such_route, methods=_EVERY_METHOD, include_in_schema=False)
    api.add_api_websocket_route("/{rest:path}", _no_such_socket)
    return api


def _no_such_route(rest: str) -> Response:
    raise ApiError(404, f"There is no /api/{rest[:80]}; /api/docs lists what there is.")


async def _no_such_socket(websocket: WebSocket) -> None:
    await websocket.close()


def _lifespan(settings: Settings, page: Page | str) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            backend = await asyncio.to_thread(Backend.open, settings)
            stack.push_async_callback(asyncio.to_thread, backend.close)
            for source in backend.sources.values():
                stack.push_async_callback(source.feed.close)
            app.state.engine_http = await stack.enter_async_context(engine_http(settings))
            app.state.backend = backend
            stack.callback(delattr, app.state, "backend")
            backend.start()
            if isinstance(page, Page):
                await stack.enter_async_context(page.running(app))
            yield

    return running


def _mount_page(app: FastAPI, page: Page | str, base: str) -> None:
    if base:
        app.add_api_route("/", lambda: RedirectResponse(f"{base}/"), include_in_schema=False)
    if isinstance(page, Page):
        app.add_api_route(f"{base}/_stcore/host-config", lambda: HOST_CONFIG, include_in_schema=False)
        app.mount(base or "/", page.asgi)
    else:
        app.add_api_route(f"{base}/", lambda: PlainTextResponse(page), include_in_schema=False)
