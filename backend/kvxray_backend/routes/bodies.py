"""Bodies of requests, cut off while they stream in: of what is longer than may be, no more is kept than that."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive

from kvxray_backend.routes.errors import ApiError

MAX_BYTES: Final = 512 << 10
"""Of what a model checks afterwards: as JSON may write it, a text is longer than itself."""


async def read_body(request: Request, most_bytes: int, too_long: str) -> bytes:
    """too_long: the sentence that says no. Raises `ApiError`."""
    pieces, num_bytes = [], 0
    async for piece in request.stream():
        num_bytes += len(piece)
        if num_bytes > most_bytes:
            raise ApiError(413, too_long)
        pieces.append(piece)
    return b"".join(pieces)


class BoundedRoute(APIRoute):
    """Reads at most `MAX_BYTES` before anything looks at the body."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def bounded(request: Request) -> Response:
            body = await read_body(request, MAX_BYTES, f"The body is longer than {MAX_BYTES >> 10} KiB.")
            return await handle(Request(request.scope, _told(body, request.receive)))

        return bounded


def _told(body: bytes, then: Receive) -> Receive:
    """As if it came in one piece; then whatever else the server tells."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return messages.pop() if messages else await then()

    return receive
