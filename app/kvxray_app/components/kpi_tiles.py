"""Tiles with the figures of the cache and their last two minutes. Drawn by `kpi_tiles.js`."""

from __future__ import annotations

from kvxray_app.components.live_component import mount_live
from kvxray_app.words import tiles


def kpi_tiles(source: str | None) -> None:
    """Mount it here for a source (None: the backend's first)."""
    mount_live("kpi_tiles", source=source, key="kpi_tiles", tiles=tiles())
