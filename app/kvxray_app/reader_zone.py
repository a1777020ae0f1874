"""The reader's time zone, as the browser tells it: times of day are written in it on every page."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import streamlit as st


def reader_zone() -> ZoneInfo:
    """The browser's zone; UTC while it is not known, or when this machine does not know it."""
    try:
        return ZoneInfo(st.context.timezone or "UTC")
    except (KeyError, ValueError, OSError):
        return ZoneInfo("UTC")
