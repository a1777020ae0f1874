"""The live page: health, findings, figures, the block map with its inspector, requests and events.

Everything that moves is a component on the feed; this script runs once a visit and never again by itself.
"""

from __future__ import annotations

import streamlit as st

from kvxray_app.client import BackendError, client
from kvxray_app.components.block_map import block_map
from kvxray_app.components.event_tail import event_tail
from kvxray_app.components.findings_banner import findings_banner
from kvxray_app.components.health_line import health_line
from kvxray_app.components.inspector import inspector
from kvxray_app.components.kpi_tiles import kpi_tiles
from kvxray_app.components.requests_table import requests_table
from kvxray_app.empty_state import no_engine
from kvxray_app.source_choice import choose_source


def live() -> None:
    """Lay out the live page."""
    try:
        source = choose_source(client().sources())
    except BackendError:
        source = None  # the components say so themselves, and try again
    else:
        if source is None:
            no_engine()
            return
    _lay_out(source)


def _lay_out(source: str | None) -> None:
    with st.container(gap=None):
        health_line(source)
        findings_banner(source)
    kpi_tiles(source)
    with st.container(key="kx-map-row"):
        wide, rail = st.columns([3, 1], gap="small")
        with wide:
            block_map(source)
        with rail:
            inspector(source)
    with st.container(key="kx-request-row"):
        wide, rail = st.columns([3, 1], gap="small")
        with wide:
            requests_table(source)
        with rail:
            event_tail(source)
