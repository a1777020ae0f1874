"""The overview: a verdict on every engine, with the figures it rests on. Drawn by `overview.js`."""

from __future__ import annotations

from kvxray_app.components.live_component import Choose, Shown, mount_live
from kvxray_app.components.overview_panels import overview_words


def overview_screen(source: str | None, choose: Choose | None = None) -> None:
    """Mount it here. source: the engine to begin with; None: the one that is worst. choose: told of another one."""
    mount_live("overview", Shown(source), key="overview", choose=choose, overview=overview_words())
