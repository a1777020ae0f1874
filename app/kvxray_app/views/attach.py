"""The page that attaches an engine: reached from the fleet, from a page that has nothing to show, and by its address.

Everything on it is a component; this script runs once a visit.
"""

from __future__ import annotations

from kvxray_app.components.attach import attach_screen


def attach() -> None:
    """Lay out the form."""
    attach_screen()
