"""The overview: whether each cache is healthy and, if not, whether it is KV, compute, queue or transfer.

One component draws all of it and keeps it up to date; this script runs once a visit.
"""

from __future__ import annotations

from kvxray_app.client import BackendError, client
from kvxray_app.components.overview import overview_screen
from kvxray_app.empty_state import no_engine
from kvxray_app.source_choice import keep_source, wanted_source


def overview() -> None:
    """Lay out the overview."""
    try:
        sources = client().sources()
    except BackendError:
        overview_screen(None)  # the component says so itself, and tries again
        return
    if not sources:
        no_engine()
        return
    overview_screen(wanted_source(), keep_source)
