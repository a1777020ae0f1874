"""The backend as one ASGI app: the page at the base path, REST and WebSocket under its /api, one gate before all. No
globals.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib import metadata
from typing import Final

from fastapi import APIRouter, FastAPI, WebSocket
from fastapi.responses import PlainTextResponse, RedirectResponse
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.routing import Match, Route, WebSocketRoute
from starlette.types import Receive, Scope, Send

from kvxray_backend.backend import Backend, check_can_start
from kvxray_backend.base_path import BasePath
from kvxray_backend.engine_http import engine_http
from kvxray_backend.page import HOST_CONFIG, Page, open_page, page_folder
from kvxray_backend.routes import (
    alerts,
    blocks,
    bookmarks,
    coverage,
    dashboard,
    docs,
    engines,
    events,
    findings,
    fleet,
    health,
    link,
    live,
    metrics,
    mutes,
    overview,
    prefixes,
    requests,
    residency,
    rules,
    signals,
    sources,
    state,
    stays,
    tenants,
    travel,
)
from kvxray_backend.routes.assets import ComponentFiles
from kvxray_backend.routes.errors import ApiError, ErrorBody, install_error_handlers
from kvxray_backend.security import Gate
from kvxray_backend.settings import Settings

_READ: Final = ["GET", "HEAD"]


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
    app.include_router(metrics.router, prefix=base)
    # After the API, so that it gets what nothing else wanted; the page below would answer anything with itself.
    app.router.routes += [Route(f"{base}/api{rest}", _NoSuchRoute()) for rest in ("", "/{rest:path}")]
    app.router.routes += [WebSocketRoute(f"{base}/api{rest}", _no_such_socket) for rest in ("", "/{rest:path}")]
    folder = page_folder()
    if folder is not None and (folder / "components").is_dir():
        app.mount(f"{base}/assets/kvxray", ComponentFiles(folder / "components"))
    _mount_page(app, page, base)
    app.add_middleware(Gate, settings=settings)
    app.add_middleware(BasePath, path=base)
    return app


def _api() -> APIRouter:
    api = APIRouter(responses={"default": {"model": ErrorBody, "description": "One sentence that says what is wrong."}})
    of_the_cache = (health, sources, state, blocks, tenants, prefixes, stays, requests, residency, coverage, fleet)
    for part in (
        *of_the_cache,
        events,
        findings,
        overview,
        signals,
        travel,
        bookmarks,
        engines,
        alerts,
        mutes,
        rules,
        link,
        dashboard,
        live,
        docs,
    ):
        api.include_router(part.router)
    return api


class _NoSuchRoute:
    """Answers, whatever the method, what no route of the API answers. HEAD is what GET is, less the body, which the
    server leaves out.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app: FastAPI = scope["app"]
        rest = scope.get("path_params", {}).get("rest", "")
        methods = _methods_of(app, scope)
        if not methods:
            raise ApiError(404, f"There is no /api/{rest[:80]}; /api/docs lists what there is.")
        if scope["method"] != "HEAD" or "GET" not in methods:
            allowed = [one for method in methods for one in ((method, "HEAD") if method == "GET" else (method,))]
            raise HTTPException(
                405, f"Ask for /api/{rest[:80]} with {' or '.join(methods)}.", {"allow": ", ".join(allowed)}
            )
        await app.router({**scope, "method": "GET"}, receive, send)


def _methods_of(app: FastAPI, scope: Scope) -> list[str]:
    """Those that a path of the API is asked with; none where there is no such path."""
    routes = [route for route in app.router.routes if route.matches({**scope})[0] is Match.PARTIAL]
    return [
        method
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
        if any(route.matches({**scope, "method": method})[0] is Match.FULL for route in routes)
    ]


async def _no_such_socket(websocket: WebSocket) -> None:
    await websocket.close()


def _lifespan(settings: Settings, page: Page | str) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            backend = await asyncio.to_thread(Backend.open, settings)
            stack.push_async_callback(asyncio.to_thread, backend.close)
            for source in backend.sources.values():
                stack.push_async_callback(source.close_feed)
            app.state.engine_http = await stack.enter_async_context(engine_http(settings))
            app.state.backend = backend
            stack.callback(delattr, app.state, "backend")
            backend.start()
            if isinstance(page, Page):
                await stack.enter_async_context(page.running(app))
            yield

    return running


def _with_slash(request: Request, base: str) -> RedirectResponse:
    """The page's address ends in a slash, since its files are named relative to it. Told without a host: only a proxy
    knows the name and scheme that the browser uses.
    """
    return RedirectResponse(f"{base}/?{request.url.query}".rstrip("?"))


def _mount_page(app: FastAPI, page: Page | str, base: str) -> None:
    if base:
        app.router.routes.append(Route(base, lambda request: _with_slash(request, base)))
    if isinstance(page, Page):
        app.add_api_route(f"{base}/_stcore/host-config", lambda: HOST_CONFIG, methods=_READ, include_in_schema=False)
        app.mount(base or "/", page.asgi)
    else:
        app.add_api_route(f"{base}/", lambda: PlainTextResponse(page), methods=_READ, include_in_schema=False)
