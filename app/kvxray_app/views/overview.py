"""The overview: whether each cache is healthy and, if not, whether it is KV, compute, queue or transfer.

One component draws all of it and keeps it up to date; this script runs once a visit.
"""

from __future__ import annotations

import streamlit as st

from kvxray_app.client import BackendError, client
from kvxray_app.components.overview import overview_screen
from kvxray_app.empty_state import no_engine


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
    overview_screen(st.query_params.get("source"))
