"""The figures over time of an engine that is watched from outside. Drawn by `foreign_course.js`."""

from __future__ import annotations

from kvxray_app.components.live_component import Shown, mount_live


def foreign_course(shown: Shown) -> None:
    """Mount it here."""
    mount_live("foreign_course", shown, key="foreign_course", kind=shown.kind, engine=shown.engine or shown.source)
