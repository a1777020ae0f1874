"""Requests, with the text that the selected one generates. Drawn by `requests_table.js`."""

from __future__ import annotations

from kvxray_app.components.live_component import Shown, mount_live


def requests_table(shown: Shown) -> None:
    """Mount it here."""
    mount_live("requests_table", shown, key="requests_table")
