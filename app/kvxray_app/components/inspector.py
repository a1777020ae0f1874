"""The selected block, request or prefix in full. Drawn by `inspector.js`."""

from __future__ import annotations

from kvxray_app.components.live_component import Shown, mount_live


def inspector(shown: Shown) -> None:
    """Mount it here."""
    mount_live("inspector", shown, key="inspector")
