"""Open findings as sentences. Drawn by `findings_banner.js`."""

from __future__ import annotations

from kvxray_app.components.live_component import mount_live


def findings_banner(source: str | None) -> None:
    """Mount it here for a source (None: the backend's first)."""
    mount_live("findings_banner", source=source, key="findings_banner")
