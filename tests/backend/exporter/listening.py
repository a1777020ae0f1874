"""The backend behind its real server, on a port of its own."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import uvicorn
from kvxray_backend.backend import Backend
from kvxray_backend.main import create_app
from kvxray_backend.settings import load_settings

from tests.backend.served import until


class Listening:
    """`http` asks it as whoever may."""

    def __init__(self, backend: Backend, port: int, http: httpx2.Client) -> None:
        self.backend, self.port, self.http = backend, port, http


@contextmanager
def listening(folder: Path, *sources: dict[str, Any], **settings: Any) -> Iterator[Listening]:
    app = create_app(load_settings(data_dir=folder, sources=sources, page=False, **settings))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=3))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        token = settings.get("token", "")
        headers = {"authorization": f"Bearer {token}"} if token else {}
        try:
            until(lambda: server.started)
            with httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60) as http:
                yield Listening(app.state.backend, port, http)
        finally:
            server.should_exit = True
            thread.join()
