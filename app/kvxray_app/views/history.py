"""The history: what happened while nobody watched. Findings, epochs and events as the event log keeps them.

Plain Streamlit over REST, read when the page is opened and on Refresh: nothing here moves by itself. The events are in
`history_events.py`.
"""

from __future__ import annotations

from datetime import tzinfo
from typing import Any

import streamlit as st

from kvxray_app.client import BackendError, Client, client
from kvxray_app.empty_state import no_engine
from kvxray_app.formats import NO_DATA, count, moment, span, zone_offset
from kvxray_app.markup import plain
from kvxray_app.permalink import live_page, moment_address
from kvxray_app.reader_zone import reader_zone
from kvxray_app.source_choice import choose_source
from kvxray_app.views.history_events import history_events
from kvxray_app.views.history_hashes import history_hashes

FINDINGS_SHOWN = 100
FINDINGS_UNSCROLLED = 4
_COLOURS = {"critical": "red", "warning": "orange", "info": "gray"}


def history() -> None:
    """Lay out the history of the chosen source."""
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.title("History", anchor=False, width="content")
        st.button("Refresh", width="content")
    st.caption(
        f"Read from the event log: it outlives the engine, this page and the backend. {_zone_words(reader_zone())}"
    )
    try:
        _draw(client())
    except BackendError as error:
        st.error(str(error))


def _draw(backend: Client) -> None:
    sources = backend.sources()
    name = choose_source(sources)
    if name is None:
        no_engine()
        return
    source = next(entry for entry in sources if entry["source"] == name)
    _totals(backend, source, is_alone=len(sources) == 1)
    zone, live = reader_zone(), live_page(name)
    with st.container(key="kx-history-row"):
        left, right = st.columns([3, 2], gap="large")
    with left:
        _findings(backend, name, zone, live)
    with right:
        _epochs(source["epochs"], zone, live)
    kind = source.get("kind", "blocks")
    if kind == "metrics":
        st.info("This engine tells no events. What its metrics told is on the page Signals.")
    else:
        (history_hashes if kind == "hashes" else history_events)(backend, name, source["epochs"], zone)


def _zone_words(zone: tzinfo) -> str:
    offset = zone_offset(None, zone)
    return "Times are in UTC." if str(zone) == "UTC" else f"Times are those of {zone}, now {offset}."


def _totals(backend: Client, source: dict[str, Any], *, is_alone: bool) -> None:
    """Four numbers that say what the log holds: of the source, and how many events of all sources together."""
    database, name = backend.health()["database"], source["source"]
    opened = backend.findings(name, 1, state="open")["total"]
    gaps = backend.findings(name, 1, kind="gap")["total"]
    columns = st.columns(4)
    columns[0].metric(
        "Stored events" if is_alone else "Stored events, all sources", count(database["stored_events"]), border=True
    )
    columns[1].metric("Epochs", count(len(source["epochs"])), border=True)
    columns[2].metric("Open findings", count(opened), border=True)
    columns[3].metric("Gaps", count(gaps), border=True)
    if database.get("failed"):
        st.error(plain(database["failed"]))


def _findings(backend: Client, source: str, zone: tzinfo, live: str | None) -> None:
    """`live`: address of the live page, None where it is not known; so below."""
    st.header("Findings", anchor=False)
    shown = st.segmented_control(
        "Which findings", ["All", "Open", "Ended"], default="All", key="findings-shown", label_visibility="collapsed"
    )
    state = str(shown or "All").lower()
    told = backend.findings(source, FINDINGS_SHOWN, state)
    listed, total = told["findings"], told["total"]
    if not listed:
        st.info("Nothing found." if state == "all" else f"No {state} findings.")
    with st.container(height=420 if len(listed) > FINDINGS_UNSCROLLED else "content", border=False):
        for finding in listed:
            _finding(finding, zone, live)
    if total > len(listed):
        st.caption(f"The newest {count(len(listed))} of {count(total)} are listed.")


def _finding(finding: dict[str, Any], zone: tzinfo, live: str | None) -> None:
    """One finding as a card: what, how bad, when, for how long and where in the events."""
    with st.container(border=True, gap="xsmall"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.badge(finding["kind"].replace("_", " "), color=_COLOURS.get(finding["severity"], "gray"))
            st.badge(finding["state"], color="gray" if finding["state"] == "ended" else "blue")
            st.caption(_when(finding, zone, live))
        st.markdown(plain(finding["sentence"]))


def _when(finding: dict[str, Any], zone: tzinfo, live: str | None) -> str:
    parts = [f"{moment(finding['time'], zone)} {zone_offset(finding['time'], zone)}"]
    lasted = span(finding["time"], finding["ended_at"])
    if finding["state"] == "open":
        parts.append(f"for {lasted} so far")
    elif finding["ended_at"] != finding["time"]:
        parts.append(f"lasted {lasted}")
    at = f"{finding['epoch']}.{finding['seq0']}"
    event = plain(f"event {at}")
    return f"{plain(', '.join(parts))}, " + (f"[{event}]({moment_address(live, at)})" if live else event)


def _epochs(epochs: list[dict[str, Any]], zone: tzinfo, live: str | None) -> None:
    st.header("Epochs", anchor=False)
    st.caption("One epoch is one life of the engine. A restart begins a new one.")
    rows = [
        {
            "Epoch": entry["epoch"],
            "Started": moment(entry["started_at"], zone),
            "Ended": _end(entry, zone),
            "Lasted": span(entry["started_at"], entry["ended_at"]),
            "Last event": _event(entry["last_seq"], live),
        }
        for entry in sorted(epochs, key=lambda entry: entry["epoch"], reverse=True)
    ]
    link = st.column_config.LinkColumn(display_text=r"at=(.+)", help="Opens the live page at the moment of the event.")
    st.dataframe(rows, hide_index=True, width="stretch", column_config={"Last event": link} if live else None)


def _event(at: str | None, live: str | None) -> str | None:
    """An event as a cell shows it: an address where there is one."""
    if at is None:
        return None if live else NO_DATA
    return moment_address(live, at) if live else at


def _end(entry: dict[str, Any], zone: tzinfo) -> str:
    if entry["unfinished_import"]:
        return "unfinished import: import its file again"
    return moment(entry["ended_at"], zone) if entry["ended_at"] else "goes on"
