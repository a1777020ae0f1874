"""The engine's HTTP API: whether it is well, the text of its requests, and whatever further routes it is given.

It runs in a thread of the engine's process. Who may ask is decided before any route; see `server/access.py`.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict

import uvicorn
from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from kvxray_engine.engine import LLMEngine
from kvxray_engine.errors import UserError
from kvxray_engine.request_texts import RequestText, RequestTexts
from kvxray_engine.server.access import AccessGate, AccessRules, error_body

GRACE_S = 3
"""Seconds that answers under way have to end when the server closes."""


def create_api(
    engine: LLMEngine,
    texts: RequestTexts,
    rules: AccessRules | None = None,
    routers: Sequence[APIRouter] = (),
    is_alive: Callable[[], bool] = lambda: True,
) -> FastAPI:
    """The API of one engine."""
    app = FastAPI(title="kvxray engine", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(AccessGate, rules=rules or AccessRules())
    app.add_exception_handler(HTTPException, _say_what_is_not_there)

    @app.head("/health", response_model=None, include_in_schema=False)
    @app.get("/health", response_model=None)
    async def health() -> JSONResponse:
        alive = is_alive()
        status = {"status": "ok" if alive else "failed", "model": engine.model.name, "step": engine.step_count}
        return JSONResponse(status, 200 if alive else 503)

    @app.head("/requests/{request_id:path}/text", response_model=None, include_in_schema=False)
    @app.get("/requests/{request_id:path}/text", response_model=None)
    async def text(request_id: str) -> dict[str, str | bool] | JSONResponse:
        """What a request has generated so far; the prompt is not part of it."""
        found = texts.get(request_id)
        if found is None and engine.inbox.knows(request_id):
            found = RequestText(request_id, "", finished=False)
        if found is None:
            sentence = f"The engine has no text of {request_id}: it never ran here, or ended too long ago."
            return JSONResponse(error_body(404, sentence), 404)
        return asdict(found)

    for router in routers:
        app.include_router(router)
    return app


async def _say_what_is_not_there(request: Request, error: Exception) -> JSONResponse:
    """Unknown paths and methods."""
    assert isinstance(error, HTTPException), "registered for these alone"
    sentence = f"There is no {request.method} {request.url.path[:100]} here."
    return JSONResponse(error_body(error.status_code, sentence), error.status_code)


class ApiServer:
    """Serves an app from a thread of its own. `address`: where, once made; port 0 = any free one.

    Raises UserError when the address cannot be had.
    """

    def __init__(self, app: FastAPI, port: int, host: str = "127.0.0.1") -> None:
        self._socket = _listen(host, port)
        name = f"[{host}]" if ":" in host else host
        self.address = f"http://{name}:{self._socket.getsockname()[1]}"
        config = uvicorn.Config(
            app, log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=GRACE_S
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="kvxray-engine-api")

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(timeout=10)
        self._socket.close()


def check_port(port: int, host: str = "127.0.0.1", *, option: str) -> None:
    """Raises UserError when the port is taken (0 never is): before anything slow begins. option: what chooses it."""
    _listen(host, port, f"another with {option}").close()


def _listen(host: str, port: int, another: str = "another port") -> socket.socket:
    """A listening socket. Raises UserError when the address cannot be had."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise UserError(
            f"Cannot listen on {host}:{port}: {error.strerror}. Stop what uses it, or choose {another}."
        ) from error
    return listener
