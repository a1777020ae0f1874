"""A real web server in the test, whose answers the test writes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = Callable[[BaseHTTPRequestHandler], None]


class Web:
    """`answer` may be changed while it serves. `seen`: paths asked for, with their headers."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.seen: list[tuple[str, dict[str, str]]] = []
        # Set when the test ends, for answers that would otherwise never.
        self.over = threading.Event()
        self.url = ""


@contextmanager
def serving(answer: Answer) -> Iterator[Web]:
    web = Web(answer)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            web.seen.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            try:
                web.answer(self)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        web.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield web
        finally:
            web.over.set()
            server.shutdown()
            thread.join()


def text(body: str | bytes, status: int = 200, **headers: str) -> Answer:
    """An answer that is always the same."""
    sent = body.encode() if isinstance(body, str) else body

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("content-length", str(len(sent)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(sent)

    return answer
