"""The alert whose culprits are marked on a page: its name, who is to blame, and the way back. Drawn by
`alert_strip.js`.
"""

from __future__ import annotations

from kvxray_app.components.alerts import SEVERITIES
from kvxray_app.components.live_component import Shown, mount_live


def alert_strip(shown: Shown) -> None:
    """Mount it here; where the address names no alert it takes no room."""
    mount_live("alert_strip", shown, key="alert_strip", kind=shown.kind, severities=SEVERITIES)
