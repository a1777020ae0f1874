"""The document that every page's address answers with: Streamlit's own, told where its server is.

Opened at the address of a page (`/overview`), Streamlit's script cannot tell whether that is a page's name or the path
that its server is under, and asks at `/overview/_stcore/health` first: two answers of 404, and two errors in the
browser's console. It does not search where `window.__streamlit` names the address.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from kvxray_backend.base_path import OWN_FOLDERS

_HEAD: Final = "<head>"
_PAGE: Final = re.compile(r"/([A-Za-z0-9_-]*)")


class PageDocument:
    """The ASGI layer around Streamlit: answers addresses of pages, and hands on all else, files and sockets."""

    def __init__(self, app: ASGIApp, static: Path, base: str) -> None:
        """`static`: Streamlit's folder with its `index.html`; `base`: the base path, without a slash at its end."""
        self._app = app
        self._base = base
        self._text = told_where((static / "index.html").read_text("utf-8"), base)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] in ("GET", "HEAD") and self._is_page(scope["path"]):
            await HTMLResponse(self._text, headers={"cache-control": "no-cache"})(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _is_page(self, path: str) -> bool:
        page = _PAGE.fullmatch(path.removeprefix(self._base))
        return page is not None and page[1] not in OWN_FOLDERS


def told_where(document: str, base: str) -> str:
    """The document with the server's address, before any other script. The browser knows the host by which it came; the
    path is ours. One without a head stays as it is: then Streamlit searches.
    """
    path = json.dumps(f"{base}/").replace("<", "\\u003c")
    script = f"<script>window.__streamlit = {{ BACKEND_BASE_URL: location.origin + {path} }}</script>"
    return document.replace(_HEAD, _HEAD + script, 1)
