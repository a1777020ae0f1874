"""Whose the cache is, on the live page: shares by tenant, and who pushed whom out. Drawn by `tenants.js`."""

from __future__ import annotations

from kvxray_app.components.live_component import Shown, mount_live


def tenants(shown: Shown) -> None:
    """Mount it here."""
    mount_live("tenants", shown, key="tenants")
