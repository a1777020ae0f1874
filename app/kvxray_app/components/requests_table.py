"""Requests, with the text that the selected one generates. Drawn by `requests_table.js`."""

from __future__ import annotations

from kvxray_app.components.live_component import mount_live


def requests_table(source: str | None) -> None:
    """Mount it here for a source (None: the backend's first)."""
    mount_live("requests_table", source=source, key="requests_table")
