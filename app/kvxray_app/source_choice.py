"""Which source a page shows: the only one, or the one chosen in the page's switch, which its address and the
next page keep.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import streamlit as st

from kvxray_app.client import BackendError, client
from kvxray_app.components.live_component import Shown
from kvxray_app.empty_state import no_engine


def lay_out_chosen(lay_out: Callable[[Shown], None]) -> None:
    """Lay out a live page of the source to show, or say that there is none yet. Without a backend the components say so
    themselves, and try again.
    """
    try:
        sources = client().sources()
        name = choose_source(sources)
    except BackendError:
        lay_out(Shown(None))
        return
    if name is None:
        no_engine()
        return
    shown = next(entry for entry in sources if entry["source"] == name)
    lay_out(Shown.of(shown, is_one_of_many=len(sources) > 1))


KEPT = "kept-source"
SWITCHED = 6
"""More sources than that are a list to search, not a row of buttons."""


def wanted_source() -> str | None:
    """The source of the address, else the one that was looked at last, on whichever page."""
    wanted: str | None = st.query_params.get("source") or st.session_state.get(KEPT)
    if wanted:
        st.session_state[KEPT] = wanted
    return wanted


def keep_source(name: str) -> None:
    """The reader chose it in a component: the other pages begin with it too."""
    st.session_state[KEPT] = name


def choose_source(sources: list[dict[str, Any]]) -> str | None:
    """The name of the source to show; draws a switch only when there is a choice. None: there is none yet."""
    names = [entry["source"] for entry in sources]
    wanted = wanted_source()
    current = wanted if wanted in names else next(iter(names), None)
    if len(names) < 2:
        return current
    chosen = _switch(names, current)
    if chosen and chosen != current:
        # Only what the reader chose is a step of its own: an address written at every arrival would catch "back".
        st.query_params["source"] = st.session_state[KEPT] = chosen
    return chosen or current


def _switch(names: list[str], current: str | None) -> str | None:
    """What the reader chose; None where nothing is chosen yet."""
    if len(names) <= SWITCHED:
        switched: str | None = st.segmented_control(
            "Source", names, default=current, key="source-choice", label_visibility="collapsed", required=True
        )
        return switched
    at = names.index(current) if current in names else 0
    chosen: str | None = st.selectbox(
        "Source", names, index=at, key="source-list", label_visibility="collapsed", width=360
    )
    return chosen
