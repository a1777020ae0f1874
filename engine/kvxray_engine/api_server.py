"""The engine's own HTTP API, on loopback: whether it is well, and the text of its requests.

It runs in a thread of the engine's process and only reads. A request whose Host is not this machine is refused, so that
no web page can read answers by way of a name that it points here.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Awaitable, Callable
from dataclasses import asdict

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from kvxray_engine.engine import LLMEngine
from kvxray_engine.errors import UserError
from kvxray_engine.request_texts import RequestText, RequestTexts

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})


def create_api(engine: LLMEngine, texts: RequestTexts) -> FastAPI:
    """The API of one engine."""
    app = FastAPI(title="kvxray engine", docs_url=None, redoc_url=None)

    @app.middleware("http")
    async def check_host(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        if not is_loopback_host(request.headers.get("host", "")):
            return JSONResponse({"error": "This API answers only to names of this machine."}, 403)
        return await call_next(request)

    @app.get("/health")
    async def health() -> dict[str, str | int]:
        return {"status": "ok", "model": engine.model.name, "step": engine.step_count}

    @app.get("/requests/{request_id:path}/text", response_model=None)
    async def text(request_id: str) -> dict[str, str | bool] | JSONResponse:
        """What a request has generated so far; the prompt is not part of it."""
        found = texts.get(request_id)
        if found is None and engine.inbox.knows(request_id):
            found = RequestText(request_id, "", finished=False)
        if found is None:
            sentence = f"The engine has no text of {request_id}: it never ran here, or ended too long ago."
            return JSONResponse({"error": sentence}, 404)
        return asdict(found)

    return app


def is_loopback_host(host: str) -> bool:
    """Whether a Host header, with or without a port, names this machine."""
    name = host.rsplit(":", 1)[0] if host.rsplit(":", 1)[-1].isdigit() else host
    return name.lower() in LOOPBACK_HOSTS


class ApiServer:
    """Serves an app on 127.0.0.1 from a thread of its own. `address`: where, once made; port 0 = any free one."""

    def __init__(self, app: FastAPI, port: int) -> None:
        self._socket = _listen(port)
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off"))
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="kvxray-engine-api")

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(timeout=10)
        self._socket.close()


def check_port(port: int) -> None:
    """Raises UserError when the port is taken (0 never is): before anything slow begins."""
    _listen(port).close()


def _listen(port: int) -> socket.socket:
    """A listening socket. Raises UserError when the port is taken."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen()
    except OSError as error:
        listener.close()
        raise UserError(
            f"Cannot listen on 127.0.0.1:{port}: {error.strerror}. Stop what uses it, or choose another port."
        ) from error
    return listener
