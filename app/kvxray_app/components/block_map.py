"""The map of all blocks, with legend, hover card and keyboard. Drawn by `block_map.js`."""

from __future__ import annotations

from kvxray_app.components.live_component import mount_live


def block_map(source: str | None) -> None:
    """Mount it here for a source (None: the backend's first)."""
    mount_live("block_map", source=source, key="block_map")
