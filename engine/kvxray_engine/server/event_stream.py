"""Server-sent events that end when their client does, and the wait for a client to leave.

A response that merely writes notices a lost client late or never; this one listens while it writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Final, TypeVar

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

DONE: Final = b"data: [DONE]\n\n"
CLIENT_CLOSED_REQUEST: Final = 499
"""nginx's status for a request whose client left; nobody reads it."""

_Result = TypeVar("_Result")


class ClientLeft(Exception):
    """The client closed its connection before it had its answer."""


async def unless_client_leaves(receive: Receive, work: Coroutine[Any, Any, _Result]) -> _Result:
    """The result of `work`. ClientLeft, and the work cancelled, when the client leaves first.

    To be called once the body of the request has been read.
    """
    watch = asyncio.create_task(_until_disconnect(receive))
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({watch, task}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientLeft
        return task.result()
    finally:
        for unfinished in (watch, task):
            unfinished.cancel()
        await asyncio.gather(watch, task, return_exceptions=True)


async def _until_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream(Response):
    """Each item as one `data:` event in JSON, then `[DONE]`. `on_end` is called however it ends."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[dict[str, Any]], on_end: Callable[[], None]) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._events = events
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await unless_client_leaves(receive, self._send_events(send))
        except ClientLeft:
            pass
        finally:
            self._on_end()

    async def _send_events(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for event in self._events:
            await _send_body(send, b"data: " + msgspec.json.encode(event) + b"\n\n")
        await _send_body(send, DONE)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send_body(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})
