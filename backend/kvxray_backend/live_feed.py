"""The live feed of one source: every frame is encoded once and goes to all viewers; without viewers nothing is done.

Up to 35 times a second what changed becomes one delta; twice a second, or every two seconds while nothing happens, a
summary follows. A viewer that cannot keep up is closed with 1013 and comes again. The last deltas are kept for half a
second, so that a viewer whose snapshot came from the cache still gets every delta after it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import anyio
from anyio.abc import TaskGroup
from starlette.websockets import WebSocket, WebSocketDisconnect

from kvxray_backend import views
from kvxray_backend.block_details import details_frame, details_with_sharers
from kvxray_backend.block_order_frame import order_frame
from kvxray_backend.live_state import LiveState
from kvxray_backend.snapshot_cache import CachedSnapshot, Encoding, SnapshotCache

TICK_S: Final = 0.028
MADE_UP_TICKS: Final = 3
SUMMARY_S: Final = 0.5
IDLE_SUMMARY_S: Final = 2.0
DETAILS_MAX_AGE_S: Final = 0.9
KEEP_FRAMES_S: Final = 0.5
MAX_QUEUED_FRAMES: Final = 128
MAX_QUEUED_BYTES: Final = 4 << 20
CLOSE_SLOW: Final = 1013
CLOSE_TIMEOUT_S: Final = 2.0

logger = logging.getLogger(__name__)

Frame = bytes | str


class Viewer:
    """What waits to be sent to one socket: bounded in frames and bytes."""

    def __init__(self) -> None:
        self.slow = asyncio.Event()
        self._frames: deque[Frame] = deque()
        self._num_bytes = 0
        self._filled = asyncio.Event()

    def offer(self, frame: Frame) -> None:
        """Queues a frame; a viewer without room for it is slow from now on and gets nothing more."""
        if self.slow.is_set():
            return
        self._frames.append(frame)
        self._num_bytes += len(frame)
        self._filled.set()
        # One large frame alone is no sign of slowness.
        if len(self._frames) > 1 and (len(self._frames) > MAX_QUEUED_FRAMES or self._num_bytes > MAX_QUEUED_BYTES):
            self._frames.clear()
            self._num_bytes = 0
            self.slow.set()

    async def next(self) -> Frame:
        """The next frame to send."""
        while not self._frames:
            self._filled.clear()
            await self._filled.wait()
        frame = self._frames.popleft()
        self._num_bytes -= len(frame)
        return frame


@dataclass(frozen=True, slots=True)
class Delta:
    """A frame sent a moment ago. `seq_from`: where it begins; `at`: monotonic seconds."""

    seq_from: float
    frame: bytes
    at: float


class LiveFeed:
    """Viewers of one source. Used from one event loop. Invariant: the ticker runs exactly while there are viewers."""

    def __init__(self, live: LiveState) -> None:
        self._live = live
        self._snapshots = SnapshotCache(live)
        self._details = SnapshotCache(live, details_frame, DETAILS_MAX_AGE_S)
        self._with_sharers = SnapshotCache(live, details_with_sharers, DETAILS_MAX_AGE_S)
        self._order = SnapshotCache(live, order_frame, DETAILS_MAX_AGE_S)
        self._viewers: set[Viewer] = set()
        self._ticker: asyncio.Task[None] | None = None
        self._recent: deque[Delta] = deque()
        self._epoch: int | None = None
        self._picture_seq = -1.0
        self._summary: str | None = None
        self._summary_at = 0.0
        self._summary_of: object = None

    @property
    def num_viewers(self) -> int:
        return len(self._viewers)

    async def snapshot(self, encoding: Encoding) -> tuple[CachedSnapshot, bytes] | None:
        """The snapshot that the deltas now being sent go on from; None before the source was joined."""
        begins_at = self._recent[0].seq_from if self._recent else self._picture_seq
        return await self._snapshots.get(encoding, begins_at if self._viewers else -1.0)

    async def details(self, encoding: Encoding) -> tuple[CachedSnapshot, bytes] | None:
        """What frames do not carry of each block, as of less than a second ago; None before the source was joined."""
        return await self._details.get(encoding, -1.0)

    async def details_with_sharers(self, encoding: Encoding) -> tuple[CachedSnapshot, bytes] | None:
        """The same, and which holders hold blocks together."""
        return await self._with_sharers.get(encoding, -1.0)

    async def order(self, encoding: Encoding) -> tuple[CachedSnapshot, bytes] | None:
        """All blocks by their prefixes, as of less than a second ago; None before the source was joined."""
        return await self._order.get(encoding, -1.0)

    async def serve(self, websocket: WebSocket) -> None:
        """Feeds one accepted socket until it goes, or proves too slow."""
        viewer = Viewer()
        self._enter(viewer)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(_end_group_after, group, lambda: _send_all(websocket, viewer))
                group.start_soon(_end_group_after, group, lambda: _until_gone(websocket))
                group.start_soon(_end_group_after, group, viewer.slow.wait)
        finally:
            self._leave(viewer)
        if viewer.slow.is_set():
            # Its buffers are full, so that even the farewell may not get through.
            with contextlib.suppress(TimeoutError, RuntimeError, WebSocketDisconnect):
                await asyncio.wait_for(websocket.close(CLOSE_SLOW, "Too slow; connect again."), CLOSE_TIMEOUT_S)

    async def close(self) -> None:
        """Stops the ticker, whoever still watches."""
        if self._ticker is not None:
            self._ticker.cancel()
            await asyncio.gather(self._ticker, return_exceptions=True)
            self._ticker = None

    def check_integrity(self) -> None:
        """Asserts the invariant."""
        assert (self._ticker is not None) == bool(self._viewers), "the ticker runs exactly while there are viewers"
        assert self._viewers or not self._recent, "frames are kept for nobody"

    def _enter(self, viewer: Viewer) -> None:
        if not self._viewers:
            with self._live.lock:
                self._picture_seq, self._epoch = self._live.start_watching(), self._live.epoch
            self._summary = None
        self._viewers.add(viewer)
        if self._summary is not None:
            viewer.offer(self._summary)
        for delta in self._recent:
            viewer.offer(delta.frame)
        if self._ticker is None:
            self._ticker = asyncio.create_task(self._tick_forever())

    def _leave(self, viewer: Viewer) -> None:
        self._viewers.discard(viewer)
        if not self._viewers:
            self._recent.clear()
            self._summary = None
            if self._ticker is not None:
                self._ticker.cancel()
                self._ticker = None

    async def _tick_forever(self) -> None:
        due = time.monotonic()
        while True:
            try:
                await self._tick()
            except Exception:
                logger.exception("The live feed of %s stumbled and goes on.", self._live.source)
            # A tick that came late is made up for, so that the rate holds; a long stall is not.
            now = time.monotonic()
            due = max(due + TICK_S, now - MADE_UP_TICKS * TICK_S)
            await asyncio.sleep(max(due - now, 0.0))

    async def _tick(self) -> None:
        # In a thread: the fold may hold the lock, and encoding must not hold up the event loop.
        epoch, made = await asyncio.to_thread(self._make_delta)
        if not self._viewers:
            return
        now = time.monotonic()
        if made is not None:
            self._recent.append(Delta(self._picture_seq, made[1], now))
            self._epoch, self._picture_seq = epoch, made[0]
            self._offer(made[1])
        while self._recent and self._recent[0].at < now - KEEP_FRAMES_S:
            self._recent.popleft()
        if self._is_summary_due(now):
            self._summary_at, self._summary_of = now, self._moment()
            self._summary = await asyncio.to_thread(lambda: views.summary(self._live).model_dump_json())
            self._offer(self._summary)

    def _make_delta(self) -> tuple[int | None, tuple[float, bytes] | None]:
        with self._live.lock:
            return self._live.epoch, self._live.delta_frame(self._epoch, self._picture_seq)

    def _is_summary_due(self, now: float) -> bool:
        if self._summary is None:
            return True
        waited = now - self._summary_at
        return waited >= IDLE_SUMMARY_S or (waited >= SUMMARY_S and self._moment() != self._summary_of)

    def _moment(self) -> object:
        """Changes whenever a summary would."""
        live = self._live
        counters = live.counters
        return (
            live.epoch, live.picture_seq, live.wire_seq, live.connection, live.open_findings, counters.gaps,
            counters.drops, counters.bad_messages,
        )  # fmt: skip

    def _offer(self, frame: Frame) -> None:
        for viewer in self._viewers:
            viewer.offer(frame)


async def _end_group_after(group: TaskGroup, wait: Callable[[], Awaitable[object]]) -> None:
    await wait()
    group.cancel_scope.cancel()


async def _send_all(websocket: WebSocket, viewer: Viewer) -> None:
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):
        while True:
            frame = await viewer.next()
            if isinstance(frame, str):
                await websocket.send_text(frame)
            else:
                await websocket.send_bytes(frame)
            # The server learns between two turns of the loop that the connection is lost; a queue sent in one turn
            # would go on into a dead socket, a complaint a frame.
            await asyncio.sleep(0)
    # The server is about to say that the viewer went; whoever returns before it did is told to have left the handshake
    # open.
    await asyncio.sleep(CLOSE_TIMEOUT_S)


async def _until_gone(websocket: WebSocket) -> None:
    """Viewers have nothing to say; what they say is read so that their going is noticed."""
    while (await websocket.receive())["type"] != "websocket.disconnect":
        pass
