"""The page of an engine that is watched from outside: figures, cached prefixes, coverage. Drawn by `residency.js`."""

from __future__ import annotations

from kvxray_app.components.live_component import Shown, mount_live
from kvxray_app.components.residency_words import residency_words


def residency_screen(shown: Shown) -> None:
    """Mount it here."""
    mount_live("residency", shown, key="residency", kind=shown.kind, residency=residency_words())
