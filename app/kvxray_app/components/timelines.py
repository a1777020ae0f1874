"""The figures over time, chart by chart over one stretch, with a brush that chooses it. Drawn by `timelines.js`."""

from __future__ import annotations

from kvxray_app.components.live_component import Shown, mount_live


def timelines(shown: Shown) -> None:
    """Mount it here."""
    mount_live("timelines", shown, key="timelines")
