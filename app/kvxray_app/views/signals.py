"""The signals: everything that the metrics of an engine tell, now and over an hour, a day or fifteen.

One component draws all of it and keeps it up to date; this script runs once a visit.
"""

from __future__ import annotations

from kvxray_app.components.signals import signals_screen
from kvxray_app.source_choice import keep_source, wanted_source


def signals() -> None:
    """Lay out the signals; without an engine, and without a backend, the component says so itself."""
    signals_screen(wanted_source(), keep_source)
