"""The newest events as they come. Drawn by `event_tail.js`."""

from __future__ import annotations

from kvxray_app.components.live_component import Shown, mount_live


def event_tail(shown: Shown) -> None:
    """Mount it here."""
    mount_live("event_tail", shown, key="event_tail")
