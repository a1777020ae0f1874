"""The page's components: ES modules, styles and pictures, served from the page's package without importing it; and
beside them plotly.js, one file out of the plotly package, for the charts that draw with it.
"""

from __future__ import annotations

import gzip
import importlib.util
from functools import cache
from pathlib import Path
from typing import Final

import anyio
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.responses import FileResponse, Response
from starlette.staticfiles import NotModifiedResponse, StaticFiles
from starlette.types import Scope

SERVED_SUFFIXES: Final = frozenset({".js", ".mjs", ".css", ".svg", ".png", ".woff2", ".map"})
PLOTLY: Final = "plotly.min.js"


class ComponentFiles(StaticFiles):
    """Files of one folder by suffix, so that Python beside the components stays private. Browsers ask again each time
    (ETag).
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(directory=folder)

    async def get_response(self, path: str, scope: Scope) -> Response:
        if Path(path).suffix not in SERVED_SUFFIXES:
            raise HTTPException(404, "There is no such file")
        response = await (_plotly(scope) if path == PLOTLY else super().get_response(path, scope))
        response.headers["cache-control"] = "no-cache"
        return response


async def _plotly(scope: Scope) -> Response:
    """plotly.js, compressed where the browser takes that: 1.4 MB of 4.8."""
    file = plotly_file()
    if file is None:
        raise HTTPException(404, "plotly is not installed; install kvxray[dashboard]")
    asked = Headers(scope=scope)
    whole = FileResponse(file, stat_result=file.stat())
    etag = whole.headers["etag"]
    if asked.get("if-none-match", "").removeprefix("W/") == etag:
        return NotModifiedResponse(whole.headers)
    if scope["method"] == "HEAD" or "gzip" not in asked.get("accept-encoding", ""):
        return whole
    headers = {"etag": f"W/{etag}", "content-encoding": "gzip", "vary": "accept-encoding"}
    return Response(await anyio.to_thread.run_sync(_compressed, file), media_type="text/javascript", headers=headers)


@cache
def plotly_file() -> Path | None:
    """Where plotly.js lies, without importing plotly; None where it is not installed."""
    spec = importlib.util.find_spec("plotly")
    folders = [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []
    return next((file for folder in folders if (file := folder / "package_data" / PLOTLY).is_file()), None)


@cache
def _compressed(file: Path) -> bytes:
    return gzip.compress(file.read_bytes(), 6)
