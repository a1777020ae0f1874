"""The history of the source at a glance, and the way to any moment of it. Drawn by `time_bar.js`."""

from __future__ import annotations

from kvxray_app.components.live_component import Shown, mount_live


def time_bar(shown: Shown) -> None:
    """Mount it here."""
    mount_live("time_bar", shown, key="time_bar")
