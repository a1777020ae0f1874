"""One line on how much to trust the page: connected, position, gaps, drops, lag. Drawn by `health_line.js`."""

from __future__ import annotations

from kvxray_app.components.live_component import mount_live


def health_line(source: str | None) -> None:
    """Mount it here for a source (None: the backend's first)."""
    mount_live("health_line", source=source, key="health_line")
