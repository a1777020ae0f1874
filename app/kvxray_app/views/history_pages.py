"""Going through events of the history page by page, from the newest to older ones and back."""

from __future__ import annotations

import streamlit as st

from kvxray_app.event_search import Found


def shown_before(key: str, newest: int) -> int:
    """The number that shown events are older than. `key`: of the session's state; `newest`: the newest, and one."""
    before: int = st.session_state.get(key, newest)
    return before


def pager(key: str, words: str, found: Found) -> None:
    """What was looked through, and the way to older events and back."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(words, width="content")
        st.button("Older", disabled=found.is_all, on_click=_show_before, args=(key, found.first), width="content")
        st.button("Newest", disabled=key not in st.session_state, on_click=_show_newest, args=(key,), width="content")


def _show_before(key: str, number: int) -> None:
    st.session_state[key] = number


def _show_newest(key: str) -> None:
    st.session_state.pop(key, None)
