"""The live page: health, findings, figures, the block map with its inspector, requests and events, whose the cache is;
and the bar that takes all of them to a moment of the past.

Everything that moves is a component on the feed; this script runs once a visit and never again by itself.
"""

from __future__ import annotations

import streamlit as st

from kvxray_app.components.alert_strip import alert_strip
from kvxray_app.components.block_map import block_map
from kvxray_app.components.event_tail import event_tail
from kvxray_app.components.findings_banner import findings_banner
from kvxray_app.components.health_line import health_line
from kvxray_app.components.inspector import inspector
from kvxray_app.components.kpi_tiles import kpi_tiles
from kvxray_app.components.live_component import Shown
from kvxray_app.components.requests_table import requests_table
from kvxray_app.components.residency import residency_screen
from kvxray_app.components.tenants import tenants
from kvxray_app.components.time_bar import time_bar
from kvxray_app.source_choice import lay_out_chosen


def live() -> None:
    """Lay out the live page."""
    lay_out_chosen(_lay_out)


def _lay_out(shown: Shown) -> None:
    if shown.kind != "blocks":
        with st.container(key="kx-head"):
            alert_strip(shown)
            residency_screen(shown)
        return
    with st.container(key="kx-head"):
        alert_strip(shown)
        health_line(shown)
        findings_banner(shown)
    kpi_tiles(shown)
    with st.container(key="kx-map-row"):
        wide, rail = st.columns([3, 1], gap="small")
        with wide:
            block_map(shown)
        with rail:
            inspector(shown)
    with st.container(key="kx-request-row"):
        wide, rail = st.columns([3, 1], gap="small")
        with wide:
            requests_table(shown)
        with rail:
            event_tail(shown)
    tenants(shown)
    time_bar(shown)
