"""The fleet: all engines of all makes in one table, sorted and filtered by whoever looks.

Everything that moves is a component that asks by itself; this script runs once a visit.
"""

from __future__ import annotations

from kvxray_app.components.fleet import fleet_screen


def fleet() -> None:
    """Lay out the fleet; with no engine, and with no backend, the component says so itself."""
    fleet_screen()
