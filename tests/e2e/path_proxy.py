"""A small reverse proxy that gives kvxray a path of a site, and takes that path away or leaves it.

Real HTTP and WebSockets over real sockets: one upstream connection a request, the Host as the browser sent it. What was
asked for, and what came back, is written down; what is not under the path is nobody's and answered with 404.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

MISSING = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


@dataclass
class PathProxy:
    """`asked`: path and status of every answer, in the order they came."""

    upstream: str
    path: str
    strips: bool
    asked: list[tuple[str, int]] = field(default_factory=list)
    url: str = ""

    @contextmanager
    def serving(self) -> Iterator[PathProxy]:
        """Serve on a free loopback port until the block is left."""
        loop = asyncio.new_event_loop()
        stop, serves = asyncio.Event(), threading.Event()
        thread = threading.Thread(target=lambda: loop.run_until_complete(self._until_told(stop, serves)))
        thread.start()
        try:
            assert serves.wait(30)
            yield self
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join(30)
            loop.close()

    async def _until_told(self, stop: asyncio.Event, serves: threading.Event) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{self.path}"
        serves.set()
        await stop.wait()
        server.close()
        while connections := asyncio.all_tasks() - {asyncio.current_task()}:
            for connection in connections:
                connection.cancel()
            await asyncio.gather(*connections, return_exceptions=True)
        # What was closed last is gone in the round after.
        await asyncio.sleep(0.05)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), _hung_up():
            await self._hand_on(reader, writer)

    async def _hand_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, *headers = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        method, target, version = first.split(b" ")
        asked = urlsplit(target.decode()).path
        if not asked.startswith(f"{self.path}/"):
            self.asked.append((asked, 404))
            writer.write(MISSING)
            return
        if self.strips:
            target = target[len(self.path) :]
        if not any(header.lower().startswith(b"upgrade:") for header in headers):
            headers = [header for header in headers if not header.lower().startswith(b"connection:")]
            headers.insert(0, b"Connection: close")
        upstream = urlsplit(self.upstream)
        up_reader, up_writer = await asyncio.open_connection(upstream.hostname, upstream.port)
        with closing(up_writer):
            up_writer.write(b"\r\n".join((b" ".join((method, target, version)), *headers)))
            await _until_one_ends(_pump(reader, up_writer), self._answer(asked, up_reader, writer))

    async def _answer(self, asked: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with _hung_up():
            head = await reader.readuntil(b"\r\n\r\n")
            self.asked.append((asked, int(head.split(b" ", 2)[1])))
            writer.write(head)
            await _pump(reader, writer)


def _hung_up() -> AbstractContextManager[None]:
    """One of the two went away, or the test is over: no more to do."""
    return suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with _hung_up():
        while part := await reader.read(1 << 16):
            writer.write(part)
            await writer.drain()


async def _until_one_ends(*ways: Coroutine[Any, Any, None]) -> None:
    """When either side hangs up, so does the other: left alone, asyncio would forget a task that nobody can wake."""
    tasks = [asyncio.create_task(way) for way in ways]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
