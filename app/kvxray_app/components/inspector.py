"""The selected block in full. Drawn by `inspector.js`."""

from __future__ import annotations

from kvxray_app.components.live_component import mount_live


def inspector(source: str | None) -> None:
    """Mount it here for a source (None: the backend's first)."""
    mount_live("inspector", source=source, key="inspector")
