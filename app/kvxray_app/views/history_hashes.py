"""The events of an engine that tells of hashes in the history: one epoch, newest first, filtered by kind and hash."""

from __future__ import annotations

from datetime import tzinfo
from typing import Any

import streamlit as st

from kvxray_app.client import Client
from kvxray_app.event_search import Found, Wanted, search_up_to
from kvxray_app.event_words import KINDS_OF_HASHES, event_words
from kvxray_app.formats import count, moment
from kvxray_app.permalink import live_page, moment_address
from kvxray_app.views.history_pages import pager, shown_before

SHOWN = 200


def history_hashes(backend: Client, source: str, epochs: list[dict[str, Any]], zone: tzinfo) -> None:
    """Draw the filters and the events that fit. `epochs`: of the source, as the API gives them."""
    st.header("Events", anchor=False)
    stored = {entry["epoch"]: entry for entry in reversed(epochs) if entry["last_seq"]}
    if not stored:
        st.info("No events are stored.")
        return
    columns = st.columns([1, 3, 3], vertical_alignment="bottom")
    epoch = columns[0].selectbox("Epoch", list(stored), key=f"hashes-{source}-epoch")
    kinds = columns[1].multiselect("Kinds", KINDS_OF_HASHES, key=f"hashes-{source}-kinds", placeholder="All kinds")
    part = columns[2].text_input("Hash", key=f"hashes-{source}-hash", placeholder="Part of it, in hexadecimal")
    wanted = Wanted(frozenset(kinds), hash=part.strip().lower())
    key = f"hashes-{source}-{epoch}-{sorted(kinds)}-{wanted.hash}"
    newest = int(stored[epoch]["last_seq"].partition(".")[2])
    found = search_up_to(_reader(backend, source, epoch), shown_before(key, newest + 1), wanted, SHOWN)
    if found.events:
        live = live_page(source)
        st.dataframe(
            [_row(event, zone, live) for event in found.events],
            hide_index=True,
            width="stretch",
            placeholder="",
            column_config=_links() if live else None,
        )
    pager(key, _words(found, epoch, wanted), found)


def _reader(backend: Client, source: str, epoch: int) -> Any:
    def read(last: int, limit: int) -> list[dict[str, Any]]:
        return list(backend.events(source, limit, at=f"{epoch}.{last}")["events"])

    return read


def _words(found: Found, epoch: int, wanted: Wanted) -> str:
    if not found.events:
        return (
            f"No event up to {epoch}.{found.last} fits." if not wanted.is_everything else "No events are stored here."
        )
    return f"{count(len(found.events))} events up to {epoch}.{found.last}, newest first."


def _row(event: dict[str, Any], zone: tzinfo, live: str | None) -> dict[str, Any]:
    at, hash = event["seq"], event.get("hash")
    return {
        "Event": moment_address(live, at) if live else at,
        "Time": moment(event["time"], zone, milliseconds=True),
        "Kind": event["kind"],
        "Hash": moment_address(live, at, hash=hash) if live and hash else hash,
        "Where and why": event_words(event),
    }


def _links() -> dict[str, Any]:
    link = st.column_config.LinkColumn
    return {
        "Event": link(display_text=r"at=([\d.]+)", help="Opens the live page at the moment of the event."),
        "Hash": link(display_text=r"hash=(.+)", help="Opens the block as it was at the event."),
    }
