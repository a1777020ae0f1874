"""The live feed: snapshot and deltas make the fold, viewers share frames, come and go, and leave nothing."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvicorn
from fastapi.testclient import TestClient
from kvxray_backend.live_feed import MAX_QUEUED_BYTES, MAX_QUEUED_FRAMES, LiveFeed, _send_all
from kvxray_backend.live_feed import Viewer as Queue
from kvxray_backend.live_state import LiveState
from kvxray_backend.main import create_app
from kvxray_backend.settings import load_settings
from kvxray_engine.stream.block_map import BlockMap
from starlette.websockets import WebSocketDisconnect

from tests.backend.served import ADDRESS, backend_of, caught_up, serving, source_of, until
from tests.backend.small_engine import SmallEngine
from tests.backend.told import Story
from tests.backend.viewer import MustFetch, Picture, read_frame

SOCKET = ADDRESS.replace("http", "ws")


class RemoteViewer(Picture):
    """A page's side of the feed: the viewer's rule over a real socket."""

    def __init__(self, http: TestClient, socket) -> None:
        super().__init__()
        self._http = http
        self._socket = socket
        self.summaries: list[dict] = []
        self.num_fetches = 0

    def fetch(self) -> None:
        answer = self._http.get("/api/state/blocks")
        assert answer.status_code == 200
        self.num_fetches += 1
        self.load(read_frame(answer.content))

    def take(self) -> None:
        """One frame of the socket."""
        message = self._socket.receive()
        if message.get("text") is not None:
            self.summaries.append(json.loads(message["text"]))
            return
        try:
            self.apply(read_frame(message["bytes"]))
        except MustFetch:
            self.fetch()

    def take_until(self, condition) -> None:
        for _ in range(2000):
            if condition():
                return
            self.take()
        raise AssertionError("it did not come about")


@pytest.mark.parametrize("wait_for_join", [True, False])
def test_snapshot_and_deltas_make_the_fold(tmp_path: Path, wait_for_join: bool) -> None:
    with SmallEngine() as engine, serving(tmp_path, source_of(engine)) as http:
        if wait_for_join:
            engine.work(20)
            caught_up(http, engine)
        with http.websocket_connect(f"{SOCKET}/api/live?source=engine") as socket:
            viewer = RemoteViewer(http, socket)
            if wait_for_join:
                viewer.fetch()
            stop = threading.Event()
            thread = threading.Thread(target=_keep_working, args=(engine, stop))
            thread.start()
            viewer.take_until(lambda: len(viewer.summaries) >= 3)
            stop.set()
            thread.join()
            caught_up(http, engine)
            live = backend_of(http).sources["engine"].live
            viewer.take_until(lambda: viewer.seq == live.picture_seq)
            assert (viewer.columns[0] == live.block_map.state).all()
            engine.assert_folded(live.block_map)
            assert viewer.num_fetches <= 2


def _keep_working(engine: SmallEngine, stop: threading.Event) -> None:
    while not stop.is_set():
        engine.work(1)
        stop.wait(0.003)


def test_a_summary_comes_at_once_and_says_what_rest_says(tmp_path: Path) -> None:
    with SmallEngine() as engine, serving(tmp_path, source_of(engine)) as http:
        engine.work(20)
        caught_up(http, engine)
        with http.websocket_connect(f"{SOCKET}/api/live") as socket:
            summary = json.loads(socket.receive_text())
        parts = {"type", "state", "source", "requests", "events", "findings", "num_findings", "leaking_requests"}
        assert set(summary) == parts
        assert (summary["num_findings"], summary["leaking_requests"]) == (len(summary["findings"]), 0)
        assert summary["type"] == "summary"
        state = http.get("/api/state").json()
        assert summary["state"]["counts"] == state["counts"]
        assert summary["state"]["seq"] == state["seq"]
        assert summary["source"]["source"] == "engine"
        assert summary["requests"] == http.get("/api/requests?limit=40").json()["requests"]
        seqs = [int(event["seq"].split(".")[1]) for event in summary["events"]]
        assert seqs == sorted(seqs, reverse=True)
        kinds = [event["kind"] for event in summary["events"]]
        of_tokens = sum(kind in ("BlockFilled", "TokensGenerated") for kind in kinds)
        assert (of_tokens, len(kinds)) == (30, 60)
        assert not {"StepStarted", "StepCompleted"} & set(kinds)


def test_before_the_source_was_joined_summaries_come_with_state_null(tmp_path: Path) -> None:
    nobody = {"name": "engine", "events": f"ipc://{tmp_path}/e", "replay": f"ipc://{tmp_path}/r"}
    with serving(tmp_path, nobody) as http, http.websocket_connect(f"{SOCKET}/api/live") as socket:
        summary = json.loads(socket.receive_text())
        assert summary["state"] is None
        assert summary["source"]["state"] == "waiting"


def test_a_source_that_does_not_exist_closes_with_4404(tmp_path: Path) -> None:
    with SmallEngine() as engine, serving(tmp_path, source_of(engine)) as http:
        with (
            http.websocket_connect(f"{SOCKET}/api/live?source=nope") as socket,
            pytest.raises(WebSocketDisconnect) as closed,
        ):
            socket.receive_text()
        assert closed.value.code == 4404


def test_viewers_come_and_go_and_leave_nothing(tmp_path: Path) -> None:
    with SmallEngine() as engine, serving(tmp_path, source_of(engine)) as http:
        engine.work(5)
        caught_up(http, engine)
        feed = backend_of(http).sources["engine"].feed
        for _ in range(5):
            with (
                http.websocket_connect(f"{SOCKET}/api/live") as one,
                http.websocket_connect(f"{SOCKET}/api/live") as two,
            ):
                one.receive_text()
                two.receive_text()
                assert http.get("/api/health").json()["viewers"] == 2
            until(lambda: feed.num_viewers == 0)
            feed.check_integrity()
        assert feed._ticker is None
        assert not feed._recent


def test_without_viewers_nothing_is_encoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[object] = []
    monkeypatch.setattr("kvxray_backend.live_state.encode_delta", lambda *a: encoded.append(a) or b"")
    monkeypatch.setattr("kvxray_backend.views.summary", lambda *a: encoded.append(a))
    with SmallEngine() as engine, serving(tmp_path, source_of(engine)) as http:
        for _ in range(5):
            engine.work(10)
            caught_up(http, engine)
        assert encoded == []


def test_a_queue_is_bounded_in_frames_and_bytes_and_one_large_frame_is_no_sign_of_slowness() -> None:
    async def story() -> None:
        queue = Queue()
        queue.offer(b"x" * (2 * MAX_QUEUED_BYTES))
        assert not queue.slow.is_set()
        queue.offer(b"x")
        assert queue.slow.is_set()
        many = Queue()
        for _ in range(MAX_QUEUED_FRAMES):
            many.offer("")
        assert not many.slow.is_set()
        many.offer("")
        assert many.slow.is_set()

    asyncio.run(story())


class StuckSocket:
    """A socket whose other end takes nothing and says nothing."""

    def __init__(self) -> None:
        self.closed_with: int | None = None

    async def send_text(self, _: str) -> None:
        await asyncio.Event().wait()

    send_bytes = send_text

    async def receive(self) -> dict:
        await asyncio.Event().wait()
        return {}

    async def close(self, code: int, reason: str) -> None:
        self.closed_with = code


def test_a_viewer_too_slow_is_closed_with_1013_and_the_others_go_on() -> None:
    async def story() -> None:
        told = Story()
        live = LiveState("told")
        live.begin(1, BlockMap(told.map.descriptor, source="told", incarnation="life-1"))
        feed = LiveFeed(live)
        stuck = StuckSocket()
        serving_it = asyncio.create_task(feed.serve(stuck))
        told.arrive("a")
        turns = 0
        while not serving_it.done() and turns < MAX_QUEUED_FRAMES + 2:
            turns += 1
            told.begin()
            live.fold(told.step())
            await feed._tick()
        await asyncio.wait_for(serving_it, 5)
        assert stuck.closed_with == 1013
        assert feed.num_viewers == 0
        feed.check_integrity()
        assert turns > 50

    asyncio.run(story())


def test_a_snapshot_from_the_cache_never_leaves_a_hole_before_the_deltas() -> None:
    async def story() -> None:
        told = Story()
        live = LiveState("told")
        live.begin(1, BlockMap(told.map.descriptor, source="told", incarnation="life-1"))
        feed = LiveFeed(live)
        told.arrive("a")
        sockets: list[CollectingSocket] = []
        tasks = []
        for block in range(1, 8):
            told.allocate("a", block)
            live.fold(told.step())
            await feed._tick()
            sockets.append(CollectingSocket())
            tasks.append(asyncio.create_task(feed.serve(sockets[-1])))
            await asyncio.sleep(0.01)
            made = await feed.snapshot("identity")
            assert made is not None
            sockets[-1].picture.load(read_frame(made[1]))
        await feed._tick()
        await asyncio.sleep(0.05)
        for watching in sockets:
            for frame in watching.deltas:
                watching.picture.apply(read_frame(frame))
            assert (watching.picture.columns[0] == told.map.state).all()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        feed.check_integrity()

    asyncio.run(story())


class CollectingSocket:
    """Keeps what it is sent."""

    def __init__(self) -> None:
        self.deltas: list[bytes] = []
        self.picture = Picture()

    async def send_text(self, _: str) -> None: ...

    async def send_bytes(self, data: bytes) -> None:
        self.deltas.append(data)

    async def receive(self) -> dict:
        await asyncio.Event().wait()
        return {}


RESET = struct.pack("ii", 1, 0)


@contextmanager
def listening(folder: Path, engine: SmallEngine) -> Iterator[tuple[LiveFeed, int]]:
    """The app behind its real server, on a port of its own; the feed and the port."""
    app = create_app(load_settings(data_dir=folder, sources=[source_of(engine)], page=False))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(
            uvicorn.Config(app, ws="websockets-sansio", log_config=None, access_log=False, timeout_graceful_shutdown=3)
        )
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            until(lambda: server.started)
            yield app.state.backend.sources["engine"].feed, listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


def knock(port: int, host: str = "127.0.0.1", path: str = "/api/live") -> socket.socket:
    """A socket that has asked to be let in, and has not looked at the answer."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    client.connect(("127.0.0.1", port))
    client.sendall(
        f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    return client


def reset(client: socket.socket) -> None:
    """Gone without a farewell."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    client.close()


def complaints(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_refused_sockets_leave_no_complaint(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with SmallEngine() as engine, listening(tmp_path, engine) as (_, port):
        for host, path, answer in (
            ("foreign.example", "/api/live", b"HTTP/1.1 403"),
            ("127.0.0.1", "/api/nope", b"HTTP/1.1 403"),
            ("127.0.0.1", "/api/live?source=nope", b"HTTP/1.1 101"),
        ):
            with knock(port, host, path) as client:
                assert client.recv(2048).startswith(answer)
    assert complaints(caplog) == []


def test_viewers_that_vanish_leave_no_complaint(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with SmallEngine() as engine, listening(tmp_path, engine) as (feed, port):
        for at in range(40):
            client = knock(port)
            if at % 2:
                client.recv(100)
            reset(client)
        until(lambda: feed.num_viewers == 0)
        stuck = [knock(port) for _ in range(8)]
        until(lambda: feed.num_viewers == 8)
        for _ in range(30):
            engine.work(4)
            threading.Event().wait(0.02)
        for client in stuck:
            reset(client)
        until(lambda: feed.num_viewers == 0)
        feed.check_integrity()
    assert complaints(caplog) == []


def test_a_queue_is_not_sent_on_into_a_dead_socket() -> None:
    async def story() -> None:
        dead = DeadSocket()
        queue = Queue()
        for _ in range(50):
            queue.offer(b"frame")
        sending = asyncio.create_task(_send_all(dead, queue))
        await asyncio.sleep(0.01)
        assert dead.num_sent == 1
        # The viewer's end is for the server to tell.
        assert not sending.done()
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)

    asyncio.run(story())


class DeadSocket:
    """Notices, as asyncio's transports do, one turn of the loop after the first send that failed."""

    def __init__(self) -> None:
        self.num_sent = 0
        self._is_gone = False

    async def send_bytes(self, _: bytes) -> None:
        if self._is_gone:
            raise WebSocketDisconnect(1006)
        self.num_sent += 1
        asyncio.get_running_loop().call_soon(self._lose)

    def _lose(self) -> None:
        self._is_gone = True
