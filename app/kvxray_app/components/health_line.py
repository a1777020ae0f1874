"""One line on how much to trust the page: connected, position, gaps, drops, lag. Drawn by `health_line.js`."""

from __future__ import annotations

from kvxray_app.components.live_component import Shown, mount_live


def health_line(shown: Shown) -> None:
    """Mount it here."""
    mount_live("health_line", shown, key="health_line")
