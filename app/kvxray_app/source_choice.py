"""Which source a page shows: the only one, or the one chosen in the page's switch and kept in its address."""

from __future__ import annotations

from typing import Any

import streamlit as st


def choose_source(sources: list[dict[str, Any]]) -> str | None:
    """The name of the source to show; draws a switch only when there is a choice. None: there is none yet."""
    names = [entry["source"] for entry in sources]
    wanted = st.query_params.get("source")
    current = wanted if wanted in names else next(iter(names), None)
    if len(names) < 2:
        return current
    chosen = st.segmented_control(
        "Source", names, default=current, key="source-choice", label_visibility="collapsed", required=True
    )
    if chosen and chosen != wanted:
        st.query_params["source"] = chosen
    return chosen or current
