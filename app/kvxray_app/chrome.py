"""The page around its content: title, icons, and the few places where Streamlit's own layout gives way to ours.

Icons are files of this package: Streamlit would fetch a named icon for the browser's tab from the internet.
"""

from __future__ import annotations

from pathlib import Path

import streamlit as st

ASSETS = Path(__file__).parent / "assets"

# Captions are paler by their colour: Streamlit's opacity makes them, and links in them, too pale to read (WCAG AA).
# The table of the history's events takes what a high window leaves.
# The rail beside the map keeps its width while the map takes what is left; on narrow screens it goes below.
_STYLE = """
<style>
*:has(> [data-testid="stHeaderLogo"]) { display: flex; align-items: center; gap: 0.6rem; margin-right: 0.8rem;
  color: inherit; text-decoration: none; }
*:has(> [data-testid="stHeaderLogo"])::after { content: "kvxray"; font-size: 1.2rem; font-weight: 650; }
[data-testid="stMainBlockContainer"] { padding: 4.4rem 1.6rem 2rem; max-width: none; }
[data-testid="stMainBlockContainer"] [data-testid="stVerticalBlock"] { gap: 0.72rem; }
[data-testid="stCaptionContainer"] { opacity: 1; color: color-mix(in srgb, currentColor 74%, transparent); }
.st-key-kx-map-row [data-testid="stHorizontalBlock"],
.st-key-kx-request-row [data-testid="stHorizontalBlock"] { gap: 0.72rem; flex-wrap: nowrap; }
.st-key-kx-map-row [data-testid="stColumn"]:last-child,
.st-key-kx-request-row [data-testid="stColumn"]:last-child { flex: 0 0 350px; width: 350px; min-width: 0; }
.st-key-kx-map-row [data-testid="stColumn"]:first-child,
.st-key-kx-request-row [data-testid="stColumn"]:first-child { flex: 1 1 0; min-width: 0; }
.st-key-kx-map-row [data-testid="stColumn"]:last-child div { height: 100%; }
[data-testid="stMainBlockContainer"] .st-key-kx-head { gap: 0; }
[data-testid="stMainBlockContainer"] h1 { padding-top: 0; }
[data-testid="stMainBlockContainer"]:has(.st-key-kx-event-table) > [data-testid="stVerticalBlock"]
{ min-height: calc(100vh - 6.4rem); }
[data-testid="stLayoutWrapper"]:has(> .st-key-kx-event-table),
.st-key-kx-event-table { flex: 1 1 auto; min-height: 420px; }
.st-key-kx-event-table > [data-testid="stElementContainer"] { flex: 1 1 420px; }
.st-key-time_bar { position: sticky; bottom: 0.5rem; z-index: 5; }
@media (max-width: 1080px) {
  [data-testid="stMainBlockContainer"] { padding-left: 1rem; padding-right: 1rem; }
  .st-key-kx-map-row [data-testid="stHorizontalBlock"],
  .st-key-kx-request-row [data-testid="stHorizontalBlock"] { flex-direction: column; }
  .st-key-kx-map-row [data-testid="stColumn"]:last-child, .st-key-kx-request-row [data-testid="stColumn"]:last-child,
  .st-key-kx-map-row [data-testid="stColumn"]:first-child, .st-key-kx-request-row [data-testid="stColumn"]:first-child
  { flex: 1 1 auto; width: 100%; }
  .st-key-kx-history-row [data-testid="stHorizontalBlock"]:has(> [data-testid="stColumn"]) { flex-direction: column; }
  .st-key-kx-history-row [data-testid="stColumn"] { flex: 1 1 auto; width: 100%; }
}
</style>
"""


def dress() -> None:
    """Title, icons and layout; called once at the start of every run."""
    st.set_page_config(page_title="kvxray", page_icon=str(ASSETS / "icon.png"), layout="wide")
    st.logo(str(ASSETS / "logo.svg"), size="large")
    st.html(_STYLE)
