"""The timelines: the course of every figure, live or over any stretch of the past, with findings, gaps and restarts.

Everything that moves is a component on the feed; this script runs once a visit and never again by itself.
"""

from __future__ import annotations

import streamlit as st

from kvxray_app.components.foreign_course import foreign_course
from kvxray_app.components.health_line import health_line
from kvxray_app.components.live_component import Shown
from kvxray_app.components.time_bar import time_bar
from kvxray_app.components.timelines import timelines
from kvxray_app.source_choice import lay_out_chosen


def timelines_page() -> None:
    """Lay out the timelines of the chosen source."""
    lay_out_chosen(_lay_out)


def _lay_out(shown: Shown) -> None:
    if shown.kind != "blocks":
        foreign_course(shown)
        return
    with st.container(key="kx-head"):
        health_line(shown)
    timelines(shown)
    time_bar(shown)
