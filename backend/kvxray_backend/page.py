"""The page: Streamlit as an ASGI app inside ours, told to stay on this machine.

The page's script is found by its package's place on disk and never imported here; it reaches the backend over HTTP, by
the address and token it is given as Streamlit secrets (`kvxray.url`, `kvxray.token`). Streamlit itself is imported only
when the page is served. One process can serve one page: Streamlit's runtime is a singleton.
"""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from starlette.types import ASGIApp

from kvxray_backend.page_document import PageDocument
from kvxray_backend.settings import Settings

# Options that the operator cannot want otherwise: nothing leaves the machine, and the server is ours, not Streamlit's.
_OPTIONS: Final[dict[str, Any]] = {
    "browser.gatherUsageStats": False,
    "client.showErrorLinks": False,
    "global.developmentMode": False,
    # Streamlit would collect all garbage after every run, holding up the thread that follows the engine.
    "runner.postScriptGC": False,
    "server.fileWatcherType": "none",
    "server.headless": True,
    "server.maxUploadSize": 1,
    "server.runOnSave": False,
    "server.showEmailPrompt": False,
}


def page_folder() -> Path | None:
    """Where the page's package lies, without importing it; None where it is not installed."""
    spec = importlib.util.find_spec("kvxray_app")
    locations = list(spec.submodule_search_locations or ()) if spec else []
    return Path(locations[0]) if locations else None


class Page:
    """One Streamlit app, ready to be mounted."""

    def __init__(self, script: Path, settings: Settings) -> None:
        import streamlit

        secrets = {"kvxray": {"url": settings.url, "token": settings.token.get_secret_value()}}
        self._app: Any = streamlit.App(script, secrets=secrets)
        static = Path(streamlit.__file__).parent / "static"
        self.asgi: ASGIApp = PageDocument(self._app, static, settings.base_path)
        _set_options(settings)

    @asynccontextmanager
    async def running(self, app: object) -> AsyncIterator[None]:
        """Starts Streamlit's runtime and stops it, waiting until its loop has ended."""
        from streamlit import runtime

        async with self._app.lifespan()(app):
            yield
        await runtime.get_instance().stopped


HOST_CONFIG: Final[dict[str, Any]] = {
    "allowedOrigins": [],
    "useExternalAuthToken": False,
    "enableCustomParentMessages": False,
    "enforceDownloadInNewTab": False,
    "metricsUrl": "",
    "blockErrorDialogs": True,
    "resourceCrossOriginMode": None,
}
"""What Streamlit's page asks of its host: no other page may steer it, and a lost backend is told by our own page."""


def open_page(settings: Settings) -> Page | str:
    """The page, or one sentence that says why there is none."""
    if not settings.page:
        return "The page is switched off (KVXRAY_PAGE); the API is under /api/."
    folder = page_folder()
    if folder is None or not (folder / "main.py").is_file() or importlib.util.find_spec("streamlit") is None:
        return "The page is not installed; install kvxray[dashboard], or use the API under /api/."
    from streamlit import runtime

    if runtime.exists():
        return "This process already serves a page; the API is under /api/."
    return Page(folder / "main.py", settings)


def _set_options(settings: Settings) -> None:
    """Set after the app knows its script, so that the page's own .streamlit/config.toml has been read, and wins nothing
    here.
    """
    from streamlit import config

    for option, value in _OPTIONS.items():
        config.set_option(option, value)
    # Where the browser finds us; Streamlit would otherwise ask the network for this machine's addresses.
    config.set_option("browser.serverAddress", settings.host)
    config.set_option("browser.serverPort", settings.port)
    config.set_option("server.port", settings.port)
