"""The events of the history: one epoch at a time, newest first, filtered by kind, request and block, page by page."""

from __future__ import annotations

from datetime import tzinfo
from typing import Any

import streamlit as st

from kvxray_app.client import Client
from kvxray_app.event_search import Found, Wanted, search_back
from kvxray_app.event_words import KINDS, event_words
from kvxray_app.formats import count, moment
from kvxray_app.permalink import live_page, moment_address
from kvxray_app.views.history_pages import pager, shown_before

SHOWN = 200
UNSCROLLED = 11
FILLS_A_WINDOW = 60
"""More rows than that are more than a window is high: the table takes what the window leaves, see chrome.py."""


def history_events(backend: Client, source: str, epochs: list[dict[str, Any]], zone: tzinfo) -> None:
    """Draw the filters and the events that fit. `epochs`: of the source, as the API gives them."""
    st.header("Events", anchor=False)
    stored = {entry["epoch"]: entry for entry in reversed(epochs) if entry["last_seq"]}
    if not stored:
        st.info("No events are stored.")
        return
    epoch, wanted = _filters(source, list(stored))
    found = _search(backend, source, stored[epoch], wanted)
    if found.events:
        live = live_page(source)
        fills = len(found.events) > FILLS_A_WINDOW
        with st.container(key="kx-event-table" if fills else None, height="stretch" if fills else "content"):
            st.dataframe(
                [_row(event, zone, live) for event in found.events],
                hide_index=True,
                width="stretch",
                height="stretch" if fills else 420 if len(found.events) > UNSCROLLED else "content",
                placeholder="",
                column_config=_links() if live else None,
            )
    _pager(source, epoch, found, wanted)


def _before(source: str) -> str:
    """Key of the session's state under which the number is that shown events are older than; absent: the newest."""
    return f"events-{source}-before"


def _filters(source: str, numbers: list[int]) -> tuple[int, Wanted]:
    """The epoch to read and what to find in it. Another choice begins again at the newest events."""
    columns = st.columns([1, 3, 2, 1], vertical_alignment="bottom")
    again: dict[str, Any] = {"on_change": _show_newest, "args": (source,)}
    key = f"events-{source}"
    epoch = columns[0].selectbox("Epoch", numbers, key=f"{key}-epoch", **again)
    kinds = columns[1].multiselect("Kinds", KINDS, key=f"{key}-kinds", placeholder="All kinds", **again)
    request = columns[2].text_input("Request", key=f"{key}-request", placeholder="Part of its id", **again)
    block = columns[3].text_input("Block", key=f"{key}-block", placeholder="Its number", **again).strip()
    if block and not block.isdecimal():
        st.warning("Write the block as its number, such as 12.")
    number = int(block) if block.isdecimal() else None
    return epoch, Wanted(frozenset(kinds), request.strip(), number)


def _search(backend: Client, source: str, epoch: dict[str, Any], wanted: Wanted) -> Found:
    def read(first: int, limit: int) -> list[dict[str, Any]]:
        return list(backend.events(source, limit, first=f"{epoch['epoch']}.{first}")["events"])

    newest = int(epoch["last_seq"].partition(".")[2])
    oldest = int((epoch["first_seq"] or ".0").partition(".")[2])
    return search_back(read, oldest, shown_before(_before(source), newest + 1), wanted, SHOWN)


def _pager(source: str, epoch: int, found: Found, wanted: Wanted) -> None:
    """What was looked through, and the way to older events and back."""
    looked = f"{epoch}.{found.first} to {epoch}.{found.last}"
    if found.last < found.first:
        words = "No events are stored here."
    elif wanted.is_everything:
        words = f"Events {looked}, newest first."
    else:
        words = f"{count(len(found.events))} of the events {looked} fit."
    pager(_before(source), words, found)


def _show_newest(source: str) -> None:
    st.session_state.pop(_before(source), None)


def _row(event: dict[str, Any], zone: tzinfo, live: str | None) -> dict[str, Any]:
    """`live`: address of the live page, where the event's moment can be looked at; None where it is not known."""
    at, block, request = event["seq"], event["block_id"], event["request_id"]
    if live:
        block = None if block is None else moment_address(live, at, block=block)
        request = None if request is None else moment_address(live, at, request=request)
    return {
        "Event": moment_address(live, at) if live else at,
        "Time": moment(event["time"], zone, milliseconds=True),
        "Step": event["step"],
        "Kind": event["kind"],
        "Block": block,
        "Request": request,
        "Cause and value": event_words(event),
    }


def _links() -> dict[str, Any]:
    def link(part: str, help_: str) -> Any:
        return st.column_config.LinkColumn(display_text=part, help=help_)

    return {
        "Event": link(r"at=([\d.]+)", "Opens the live page at the moment of the event."),
        "Block": link(r"block=(\d+)", "Opens the block as it was at the event."),
        "Request": link(r"request=(.+)", "Opens the request as it was at the event."),
    }
