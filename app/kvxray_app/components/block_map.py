"""The map of all blocks, with legend, hover card and keyboard. Drawn by `block_map.js`."""

from __future__ import annotations

from kvxray_app.components.live_component import Shown, mount_live


def block_map(shown: Shown) -> None:
    """Mount it here."""
    mount_live("block_map", shown, key="block_map")
