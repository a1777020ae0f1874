"""A web server that takes alerts: answers as it is told to, and remembers what came."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Came:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """hang: it takes everything and says nothing until the receiver stops. drip_bytes: of a body without end, one by
    one.
    """

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    hang: bool = False
    drip: bool = False


class Receiver:
    """`replies` are given in turn, then 200 for ever. `came`: all that came, in order."""

    def __init__(self, port: int = 0) -> None:
        self.came: list[Came] = []
        self.replies: list[Reply] = []
        self.always: Reply | None = None
        self.refuses: Callable[[Came], bool] = lambda came: False
        self.port = port
        self.over = threading.Event()
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        receiver = self

        class Handler(_Handler):
            of = receiver

        self.over.clear()
        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        self.over.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def take(self, came: Came) -> Reply:
        self.came.append(came)
        if self.refuses(came):
            return Reply(400)
        if self.always is not None:
            return self.always
        return self.replies.pop(0) if self.replies else Reply()

    @property
    def told(self) -> list[str]:
        """Ids of notifications as they came, in order."""
        return [one["id"] for came in self.came for one in came.json["notifications"]]


class _Handler(BaseHTTPRequestHandler):
    of: Receiver

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        reply = self.of.take(Came(self.path, {name.lower(): value for name, value in self.headers.items()}, body))
        if reply.hang:
            self.of.over.wait()
            return
        self.send_response(reply.status)
        for name, value in reply.headers:
            self.send_header(name, value)
        if not reply.drip:
            self.send_header("content-length", str(len(reply.body)))
        self.end_headers()
        try:
            self.wfile.write(reply.body)
            while reply.drip and not self.of.over.is_set():
                self.wfile.write(b".")
                self.wfile.flush()
                time.sleep(0.01)
        except OSError:
            pass

    def log_message(self, *_) -> None:
        pass
