"""The path everything is served under, where a proxy gives kvxray only part of a site.

One proxy hands on the address as the browser sent it, another takes the path away first. Both are served: what does not
begin with the path is taken to have lost it, so that behind this layer every request has the path that the browser
asked for, and whatever is built from it (redirects, the path of the cookie) is right there too.
"""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

OWN_FOLDERS: Final = frozenset(("_stcore", "api", "assets", "component", "media", "metrics", "static"))
"""What kvxray and Streamlit serve beside pages. A base path that begins with one could not be told from a path that
has lost it.
"""


class BasePath:
    """The outermost ASGI layer: gives every request its whole path."""

    def __init__(self, app: ASGIApp, path: str) -> None:
        self._app = app
        self._path = path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._path and scope["type"] in ("http", "websocket") and not self._has_path(scope["path"]):
            whole = {"path": self._path + scope["path"]}
            if scope.get("raw_path") is not None:
                whole["raw_path"] = self._path.encode() + scope["raw_path"]
            scope = {**scope, **whole}
        await self._app(scope, receive, send)

    def _has_path(self, path: str) -> bool:
        return path == self._path or path.startswith(f"{self._path}/")
