"""Tiles with the figures of the cache and their last two minutes. Drawn by `kpi_tiles.js`."""

from __future__ import annotations

from kvxray_app.components.live_component import Shown, mount_live
from kvxray_app.words import tiles


def kpi_tiles(shown: Shown) -> None:
    """Mount it here."""
    mount_live("kpi_tiles", shown, key="kpi_tiles", tiles=tiles())
