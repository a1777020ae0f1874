"""The page's components: ES modules, styles and pictures, served from the page's package without importing it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

SERVED_SUFFIXES: Final = frozenset({".js", ".mjs", ".css", ".svg", ".png", ".woff2", ".map"})


class ComponentFiles(StaticFiles):
    """Files of one folder by suffix, so that Python beside the components stays private. Browsers ask again each time
    (ETag).
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(directory=folder)

    async def get_response(self, path: str, scope: Scope) -> Response:
        if Path(path).suffix not in SERVED_SUFFIXES:
            raise HTTPException(404, "There is no such file")
        response = await super().get_response(path, scope)
        response.headers["cache-control"] = "no-cache"
        return response
