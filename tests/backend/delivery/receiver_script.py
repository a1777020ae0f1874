"""Run by itself: a receiver that writes down what came before it answers."""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class _Handler(BaseHTTPRequestHandler):
    file: Path

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        line = {"delivery": self.headers["X-Kvxray-Delivery"], "ids": [one["id"] for one in body["notifications"]]}
        out = os.open(self.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(out, f"{json.dumps(line)}\n".encode())
        os.close(out)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def _serve(port: int, file: Path) -> None:
    _Handler.file = file
    server = ThreadingHTTPServer(("127.0.0.1", port), _Handler)
    print("ready", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    _serve(int(sys.argv[1]), Path(sys.argv[2]))
