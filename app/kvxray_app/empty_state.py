"""What a page shows when there is nothing to show yet: one card that says what is missing and what to do."""

from __future__ import annotations

from html import escape

import streamlit as st

from kvxray_app.markup import colour_variables

_STYLE = """
<style>
.kx-empty { max-width: 44rem; margin: 12vh auto 0; padding: 2rem 2.2rem; text-align: center; border-radius: 12px;
  border: 1px solid var(--kx-border); background: var(--kx-panel); color: var(--kx-text-muted); }
.kx-empty .grid { width: 8.9rem; height: 3.9rem; margin: 0 auto 1.1rem; background-color: var(--kx-empty);
  background-image: linear-gradient(var(--kx-panel) 4px, transparent 4px),
    linear-gradient(90deg, var(--kx-panel) 4px, transparent 4px); background-size: 1.25rem 1.25rem; }
.kx-empty h2 { margin: 0 0 0.7rem; padding: 0; font-size: 1.25rem; font-weight: 600; color: var(--kx-text); }
.kx-empty a { color: var(--kx-accent); font-weight: 600; }
.kx-empty p { margin: 0.35rem 0; }
.kx-empty code { padding: 0.1rem 0.4rem; border-radius: 5px; background: var(--kx-canvas); color: var(--kx-text); }
</style>
"""


def no_engine() -> None:
    """The backend follows no engine: how to give it one."""
    observe, source, setting, demo = (
        f"<code>{escape(text)}</code>"
        for text in ("kvxray observe", "kvxray serve --source NAME=EVENTS,REPLAY", "KVXRAY_SOURCES", "kvxray demo")
    )
    st.html(
        f'{_STYLE}<section class="kx-empty" role="status" style="{colour_variables()}"><div class="grid"></div>'
        "<h2>No engine to follow yet</h2>"
        '<p><a href="attach" target="_self">Attach an engine</a>: vLLM, SGLang, TensorRT-LLM, Dynamo.</p>'
        f"<p>Or start kvxray with {observe}.</p>"
        f"<p>One of kvxray's own: {source}<br>or {setting}.</p>"
        f"<p>To see one at work at once, run {demo}.</p></section>"
    )
