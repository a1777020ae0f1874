"""A backend that does what a test says: frames and summaries of the live feed, snapshots, and a bare page to mount on.

Speaks the routes of the real one but knows no engine: a test sets the blocks, sends a delta, withholds one, begins a
new epoch or hangs up, and looks at what the browser makes of it.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import kvxray_app.components
import numpy as np
import uvicorn
from kvxray_app.components.live_component import style
from kvxray_app.theme import palettes
from kvxray_app.words import glossary, tiles
from kvxray_backend.routes.assets import ComponentFiles
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

HEADER = struct.Struct("<4sBBHIIdddIiIIQ")
COMPONENTS = Path(kvxray_app.components.__file__).parent

# A component as Streamlit mounts it: a shadow root with the empty container, Streamlit's theme variables on its parent.
PAGE = """<!doctype html><meta charset="utf-8"><title>bench</title>
<body style="--st-background-color: #0b0e14; width: 900px">
<script type="module">
import * as mounting from "/assets/kvxray/live_view.js";
const cleanups = new Map();
const roots = new Map();
window.toldStreamlit = [];
window.mountComponent = async (name, data) => {
  const { mount } = await import(`/assets/kvxray/${name}.js`);
  if (!roots.has(name)) {
    const host = document.body.appendChild(document.createElement("div"));
    const root = host.attachShadow({ mode: "open" });
    const css = await (await fetch(`/style/${name}`)).text();
    root.append(Object.assign(document.createElement("style"), { textContent: css }));
    root.append(Object.assign(document.createElement("div"), { className: "kx" }));
    roots.set(name, root);
    host.id = name;
  }
  const setStateValue = (state, value) => window.toldStreamlit.push([state, value]);
  const cleanup = mount({ parentElement: roots.get(name), data, setStateValue });
  cleanups.set(name, [...(cleanups.get(name) ?? []), cleanup]);
  // Drawn once: what was mounted shows nothing that a reader never sees.
  await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
};
window.cleanUp = (name, call) => cleanups.get(name).at(call)();
window.unmount = (name) => {
  window.cleanUp(name, -1);
  document.getElementById(name).remove();
  roots.delete(name);
};
window.inside = (name, selector) => roots.get(name).querySelector(selector);
window.ready = true;
</script>
"""


class ScriptedBackend:
    """Blocks as four byte columns (states, refs, fills, flags), an epoch, a position, and who watches them."""

    def __init__(self, num_blocks: int = 9, block_size: int = 16) -> None:
        self.block_size = block_size
        self.resize(num_blocks)
        self.epoch, self.seq = 1, 100
        self.engine_time = "2026-01-01T00:02:00.000Z"
        self.watched_since = "2026-01-01T00:00:00.000Z"
        self.joined = True
        self.source_state = "connected"
        self.requests: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.findings: list[dict[str, Any]] = []
        self.num_findings = 0
        """Where more are open than `findings` tells; 0: no more."""
        self.figures: dict[str, dict[str, Any]] = {}
        self.descriptor: dict[str, Any] | None = None
        self.answers: dict[str, Any] = {}
        self.snapshots_served = 0
        self.asked: list[str] = []
        self.sent: list[tuple[str, str, Any]] = []
        """What was sent to be done: method, path and body, None where there was none."""
        self.refusals: dict[str, tuple[int, dict[str, Any]]] = {}
        """Paths that refuse what is sent to them: status and body."""
        self._sockets: set[WebSocket] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.url = ""

    # What tests do.

    def resize(self, num_blocks: int) -> None:
        """So many blocks, nothing written yet."""
        self.num_blocks = num_blocks
        self.columns = np.zeros((4, num_blocks), np.uint8)
        self.columns[0, 1:] = 1
        self.columns[3, 0] = 2

    def set_block(self, block: int, state: int, ref: int, slots: int, flags: int = 0) -> None:
        """Change a block without telling anybody."""
        fill = -(-slots * 254 // self.block_size)
        self.columns[:, block] = (state, ref, fill, flags)

    def send_delta(self, blocks: list[int], *, events: int = 1) -> None:
        """Tell all viewers what these blocks are now, as of `events` more events."""
        before, self.seq = self.seq, self.seq + events
        self.send(self.delta(blocks, before, self.seq))

    def delta(self, blocks: list[int], seq_from: float, seq_to: float) -> bytes:
        ids = np.array(blocks, np.uint32)
        return self._header(2, seq_from, seq_to, len(blocks)) + ids.tobytes() + self.columns[:, blocks].tobytes()

    def send_summary(self) -> None:
        self.send(json.dumps(self.summary()))

    def send(self, frame: bytes | str) -> None:
        for websocket in list(self._sockets):
            self._run(websocket.send_bytes(frame) if isinstance(frame, bytes) else websocket.send_text(frame))

    def begin_epoch(self) -> None:
        """A new life of the engine: nothing written yet, events numbered from the start."""
        self.epoch, self.seq = self.epoch + 1, 5
        self.columns[:, 1:] = 0
        self.columns[0, 1:] = 1

    def hang_up(self, code: int = 1012) -> None:
        for websocket in list(self._sockets):
            self._run(websocket.close(code))

    @property
    def num_viewers(self) -> int:
        return len(self._sockets)

    # What it answers.

    def summary(self) -> dict[str, Any]:
        state = self._state() if self.joined else None
        return {
            "type": "summary",
            "state": state,
            "source": self._source(),
            "requests": self.requests,
            "events": self.events,
            "findings": self.findings,
            "num_findings": self.num_findings or len(self.findings),
            "leaking_requests": sum(finding.get("kind") == "leak" for finding in self.findings),
        }

    def _state(self) -> dict[str, Any]:
        names = ("unknown", "empty", "free", "cached", "active", "shared")
        counts = np.bincount(self.columns[0, 1:], minlength=6)
        return {
            "epoch": self.epoch,
            "seq": f"{self.epoch}.{self.seq}",
            "time": f"2026-01-01T00:{self.seq // 60 % 60:02d}:{self.seq % 60:02d}.000Z",
            "engine_time": self.engine_time,
            "watched_since": self.watched_since,
            "usable_blocks": self.num_blocks - 1,
            "block_size": self.block_size,
            "bytes_per_block": 2048,
            "counts": {name: figure(int(counts[at]), "blocks") for at, name in enumerate(names)},
            "figures": self.figures,
            "findings": [],
        }

    def _source(self) -> dict[str, Any]:
        return {
            "source": "demo",
            "state": self.source_state if self.joined else "waiting",
            "since": "2026-01-01T00:00:00.000Z",
            "epoch": self.epoch if self.joined else None,
            "last_seq": f"{self.epoch}.{self.seq}" if self.joined else None,
            "gaps": 0,
            "drops": 0,
            "bad_messages": 0,
            "lag_s": figure(0.002, "seconds"),
            "descriptor": self.descriptor,
        }

    def _header(self, kind: int, seq_from: float, seq_to: float, count: int) -> bytes:
        head = (b"KVXB", 1, kind, 0, self.epoch, self.num_blocks, seq_from, seq_to, 1_767_225_600.0, count)
        return HEADER.pack(*head, 0, self.block_size, self.num_blocks - 1, 0)

    async def _snapshot(self, request: Request) -> Response:
        if not self.joined:
            return JSONResponse({"error": "Nothing has joined yet."}, 503)
        self.snapshots_served += 1
        body = self._header(1, 0, self.seq, self.num_blocks) + self.columns.tobytes()
        return Response(body, media_type="application/octet-stream")

    async def _answer(self, request: Request) -> Response:
        path = request.path_params["path"]
        self.asked.append(path)
        if request.method != "GET":
            self.sent.append((request.method, path, json.loads(await request.body() or b"null")))
            if path in self.refusals:
                status, body = self.refusals[path]
                return JSONResponse(body, status)
        answer = self.answers.get(path)
        if isinstance(answer, bytes):
            return Response(answer, media_type="application/octet-stream")
        return JSONResponse({"error": "There is no such thing."}, 404) if answer is None else JSONResponse(answer)

    async def _live(self, websocket: WebSocket) -> None:
        await websocket.accept()
        self._sockets.add(websocket)
        try:
            await websocket.send_text(json.dumps(self.summary()))
            while True:
                await websocket.receive_text()
        except WebSocketDisconnect:
            pass
        finally:
            self._sockets.discard(websocket)

    def _run(self, coroutine: Any) -> None:
        assert self._loop is not None, "the backend is not serving"
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    @contextmanager
    def serving(self) -> Iterator[ScriptedBackend]:
        """Serve on a free loopback port until the block is left."""
        routes = [
            Route("/", lambda request: HTMLResponse(PAGE)),
            Route("/api/state/blocks", self._snapshot),
            WebSocketRoute("/api/live", self._live),
            Route("/api/{path:path}", self._answer, methods=["GET", "POST", "PUT", "DELETE"]),
            Route("/style/{name}", lambda request: PlainTextResponse(style(request.path_params["name"]))),
            Mount("/assets/kvxray", ComponentFiles(COMPONENTS)),
        ]
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            config = uvicorn.Config(Starlette(routes=routes), ws="websockets-sansio", log_level="error", lifespan="off")
            server = uvicorn.Server(config)
            thread = threading.Thread(target=lambda: asyncio.run(self._serve(server, listener)))
            thread.start()
            try:
                yield self
            finally:
                server.should_exit = server.force_exit = True
                thread.join(20)

    async def _serve(self, server: uvicorn.Server, listener: socket.socket) -> None:
        self._loop = asyncio.get_running_loop()
        await server.serve(sockets=[listener])


def figure(value: float | None, unit: str, certainty: str = "exact") -> dict[str, Any]:
    return {"value": value, "unit": unit, "certainty": certainty, "since_seq": None, "taints": []}


def component_data(**more: Any) -> dict[str, Any]:
    """What Python hands to every component."""
    return {"source": "demo", "palettes": palettes(), "words": glossary(), "tiles": tiles(), **more}
