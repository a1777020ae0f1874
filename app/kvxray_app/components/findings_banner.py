"""Open findings as sentences. Drawn by `findings_banner.js`."""

from __future__ import annotations

from kvxray_app.components.live_component import Shown, mount_live


def findings_banner(shown: Shown) -> None:
    """Mount it here."""
    mount_live("findings_banner", shown, key="findings_banner")
