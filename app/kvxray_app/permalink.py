"""Addresses of the live page at a moment of the past: what the page itself writes into its address."""

from __future__ import annotations

from urllib.parse import quote, urljoin

import streamlit as st


def live_page(source: str) -> str | None:
    """Address of the live page of a source, up to the query's next part; None when this page's own is not known."""
    here = st.context.url
    return f"{urljoin(here, '.')}?source={quote(source, safe='')}" if here else None


def moment_address(
    live: str, at: str, *, block: int | None = None, request: str | None = None, hash: str | None = None
) -> str:
    """The moment `at` (EPOCH.SEQ), perhaps with a block, a request or a hash chosen. `live`: what `live_page` told."""
    address = f"{live}&at={quote(at, safe='')}"
    if block is not None:
        address += f"&block={block}"
    if request is not None:
        address += f"&request={quote(request, safe='')}"
    if hash is not None:
        address += f"&hash={quote(hash, safe='')}"
    return address
