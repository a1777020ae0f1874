"""The page's only way to the backend: HTTP to the server that serves the page.

Address and token are given by the backend as Streamlit secrets (`kvxray.url`, `kvxray.token`); run by itself the page
takes `KVXRAY_HOST`, `KVXRAY_PORT`, `KVXRAY_BASE_PATH` and `KVXRAY_TOKEN`. Answers are the JSON of the routes,
unchanged.
"""

from __future__ import annotations

import os
from typing import Any

import httpx2
import streamlit as st

TIMEOUT_S = 5.0


class BackendError(Exception):
    """The backend refused or did not answer; the message is one sentence to show."""


class Client:
    """Read access to one backend. `transport` is for tests."""

    def __init__(self, url: str, token: str = "", transport: httpx2.BaseTransport | None = None) -> None:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        base = f"{url.rstrip('/')}/api/"
        self._http = httpx2.Client(base_url=base, headers=headers, timeout=TIMEOUT_S, transport=transport)

    def health(self) -> dict[str, Any]:
        """State of the backend and its database."""
        return self._get("health")

    def sources(self) -> list[dict[str, Any]]:
        """All sources, each with its epochs."""
        return list(self._get("sources")["sources"])

    def findings(self, source: str, limit: int, state: str = "all", kind: str | None = None) -> dict[str, Any]:
        """The newest findings of a source, open, ended or all, of one kind or of every, and how many there are in all:
        `{"findings": [...], "total": number}`.
        """
        return self._get("findings", source=source, state=state, limit=limit, **({"kind": kind} if kind else {}))

    def events(self, source: str, limit: int, first: str | None = None, at: str | None = None) -> dict[str, Any]:
        """Stored events from `first` (EPOCH.SEQ) on, the last up to `at`, or the newest ones:
        `{"events": [...], "next": EPOCH.SEQ}`.
        """
        asked = {"from": first, "at": at}
        return self._get("events", source=source, limit=limit, **{name: told for name, told in asked.items() if told})

    def _get(self, path: str, **query: Any) -> dict[str, Any]:
        try:
            response = self._http.get(path, params=query)
            body = response.json()
        except (httpx2.HTTPError, ValueError) as error:
            raise BackendError("The backend does not answer; it may be starting or stopping. Try again.") from error
        if response.is_success and isinstance(body, dict):
            return body
        sentence = body.get("error") if isinstance(body, dict) else None
        raise BackendError(sentence or f"The backend answered {response.status_code}.")


def client() -> Client:
    """The client of this process, its connections shared by all sessions."""
    shared: Client = _shared(*_address())
    return shared


_shared = st.cache_resource(show_spinner=False)(Client)


def _address() -> tuple[str, str]:
    try:
        given = st.secrets["kvxray"]
        return str(given["url"]), str(given.get("token", ""))
    except (KeyError, FileNotFoundError):
        host, port = os.environ.get("KVXRAY_HOST", "127.0.0.1"), os.environ.get("KVXRAY_PORT", "8501")
        base = os.environ.get("KVXRAY_BASE_PATH", "").strip().strip("/")
        return f"http://{host}:{port}/{base}", os.environ.get("KVXRAY_TOKEN", "")
