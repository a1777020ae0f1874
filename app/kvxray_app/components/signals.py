"""The signals: what the metrics of one engine tell, number by number, with its course. Drawn by `signals.js`."""

from __future__ import annotations

from kvxray_app.components.live_component import Choose, Shown, mount_live


def signals_screen(source: str | None, choose: Choose | None = None) -> None:
    """Mount it here. source: the engine to begin with; None: the first that tells any. choose: told of another one."""
    mount_live("signals", Shown(source), key="signals", choose=choose)
