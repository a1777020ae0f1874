"""A viewer of the live feed without a browser: the socket, the compressed snapshot, then deltas, as the page has it."""

from __future__ import annotations

import asyncio
import struct
import urllib.request
import zlib
from dataclasses import dataclass

import websockets

HEADER = struct.Struct("<4sBBHIIdddIiIIQ")
DELTA = 2


@dataclass(frozen=True, slots=True)
class Frame:
    """What a frame says of itself. `count`: rows."""

    type: int
    seq_from: float
    seq_to: float
    count: int

    @classmethod
    def of(cls, data: bytes) -> Frame:
        head = HEADER.unpack_from(data)
        return cls(head[2], head[6], head[7], head[9])


class FeedViewer:
    """Follows a feed until it is left. `changes`: rows of the deltas that came so far, `frames`: how many came."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.joined = asyncio.Event()
        self.changes = 0
        self.frames = 0

    async def run(self) -> None:
        """Returns only when cancelled, or raises."""
        async with websockets.connect(self._url.replace("http", "ws") + "/api/live", max_size=None) as socket:
            snapshot = asyncio.create_task(asyncio.to_thread(self._snapshot))
            async for message in socket:
                if isinstance(message, str):
                    continue
                delta = Frame.of(message)
                self.changes += delta.count
                self.frames += 1
                if snapshot.done() and not self.joined.is_set() and delta.seq_to > snapshot.result().seq_to:
                    self.joined.set()

    def _snapshot(self) -> Frame:
        request = urllib.request.Request(f"{self._url}/api/state/blocks", headers={"accept-encoding": "gzip"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return Frame.of(zlib.decompress(answer.read(), wbits=31))
