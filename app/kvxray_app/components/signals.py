"""The signals: what the metrics of one engine tell, number by number, with its course. Drawn by `signals.js`."""

from __future__ import annotations

from kvxray_app.components.live_component import Shown, mount_live


def signals_screen(source: str | None) -> None:
    """Mount it here. source: the engine to begin with; None: the first whose metrics are read."""
    mount_live("signals", Shown(source), key="signals")
