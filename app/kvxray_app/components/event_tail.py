"""The newest events as they come. Drawn by `event_tail.js`."""

from __future__ import annotations

from kvxray_app.components.live_component import mount_live


def event_tail(source: str | None) -> None:
    """Mount it here for a source (None: the backend's first)."""
    mount_live("event_tail", source=source, key="event_tail")
