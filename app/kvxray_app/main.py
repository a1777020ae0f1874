"""Entry of the page: the script that Streamlit runs. It knows the list of pages and nothing else."""

from __future__ import annotations

import streamlit as st

from kvxray_app.chrome import dress
from kvxray_app.views.alerts import alerts
from kvxray_app.views.attach import attach
from kvxray_app.views.fleet import fleet
from kvxray_app.views.guide import guide
from kvxray_app.views.history import history
from kvxray_app.views.live import live
from kvxray_app.views.overview import overview
from kvxray_app.views.signals import signals
from kvxray_app.views.timelines import timelines_page


def run() -> None:
    """Draw the page that the address names."""
    dress()
    pages = [
        st.Page(live, title="Live", url_path="live", default=True),
        st.Page(overview, title="Overview", url_path="overview"),
        st.Page(fleet, title="Fleet", url_path="fleet"),
        st.Page(alerts, title="Alerts", url_path="alerts"),
        st.Page(timelines_page, title="Timelines", url_path="timelines"),
        st.Page(history, title="History", url_path="history"),
        st.Page(signals, title="Signals", url_path="signals"),
        st.Page(guide, title="Guide", url_path="guide"),
        st.Page(attach, title="Attach an engine", url_path="attach", visibility="hidden"),
    ]
    st.navigation(pages, position="top").run()


run()
