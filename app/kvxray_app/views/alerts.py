"""The alerts: what fires, what is over, and the rules with their runbooks.

Everything that moves is a component that asks by itself; this script runs once a visit.
"""

from __future__ import annotations

from kvxray_app.components.alerts import alerts_screen


def alerts() -> None:
    """Lay out the alerts; with none, and with no backend, the component says so itself."""
    alerts_screen()
