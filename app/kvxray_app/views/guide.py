"""The guide: what every state, figure and mark on the page means, in the words the tooltips use."""

from __future__ import annotations

import streamlit as st

from kvxray_app.markup import colour_variables, definitions
from kvxray_app.words import CERTAINTIES, FIGURES, HEALTH, LEAKED, STATES

_ORDER = ("shared", "active", "cached", "free", "empty", "unknown")

_MAP = {
    "Square": "One block: the unit in which the engine hands out cache memory, room for a fixed number of tokens.",
    "Filled part": "Slots of the block that hold a token. The soft part above is empty slots: internal fragmentation.",
    "Number": "How many sequences hold a shared block.",
    "Flash": "The block just changed. Tokens written make it flash faintly, a change of hands brightly.",
    "Click, arrows, Enter": "Inspect a block: who holds it, its hash, its history. The page's address then names it.",
    "Escape": "Let go of the block and of the request whose blocks are lit up.",
}

_STYLE = """
<style>
.kx-words { max-width: 46rem; margin-bottom: 1.6rem; }
.kx-words h2 { font-size: 1.05rem; font-weight: 600; margin: 0 0 0.5rem; padding: 0; }
.kx-words dl { display: grid; grid-template-columns: 11.5rem 1fr; gap: 0.45rem 1.2rem; margin: 0; padding: 0; }
.kx-words dt { margin: 0; padding: 0; font-weight: 600; color: var(--kx-text); }
.kx-words dd { margin: 0; color: var(--kx-text-muted); }
.kx-swatch { display: inline-block; width: 0.85rem; height: 0.85rem; border-radius: 0.22rem; margin-right: 0.6rem;
  vertical-align: -0.1rem; }
.kx-swatch.unknown { background: var(--kx-unknown); } .kx-swatch.free { background: var(--kx-free); }
.kx-swatch.empty { background: var(--kx-empty); box-shadow: inset 0 0 0 1px var(--kx-border-strong); }
.kx-swatch.cached { background: var(--kx-cached); } .kx-swatch.active { background: var(--kx-active); }
.kx-swatch.shared { background: var(--kx-shared); }
.kx-swatch.leaked { box-shadow: inset 0 0 0 1.5px var(--kx-leaked);
  background: repeating-linear-gradient(45deg, var(--kx-leaked) 0 2px, transparent 2px 4px); }
.kx-guide { columns: 2 30rem; column-gap: 3rem; }
.kx-guide section { break-inside: avoid; }
</style>
"""


def guide() -> None:
    """Lay out the guide."""
    st.title("Guide", anchor=False)
    st.caption("What the states, figures and marks on the page mean.")
    states = {name: STATES[name] for name in _ORDER} | {"leaked": LEAKED}
    sections = (
        definitions("States of a block", states, swatches=True),
        definitions("Reading the map", _MAP),
        definitions("Figures", {figure.label: figure.meaning for figure in FIGURES}),
        definitions("How sure a figure is", _certainties()),
        definitions("Health of the stream", _split(HEALTH)),
    )
    st.html(f'{_STYLE}<div class="kx-guide" style="{colour_variables()}">{"".join(sections)}</div>')


def _certainties() -> dict[str, str]:
    """Certainties with the dot that stands beside a figure's label."""
    marks = {"Exact": "full dot", "Derived": "half dot", "Not observable": "a dash for a value"}
    return {f"{word}: {marks[word]}": meaning for word, meaning in _split(CERTAINTIES).items()}


def _split(sentences: dict[str, str]) -> dict[str, str]:
    """`Word: meaning.` sentences as words and meanings."""
    parts = (sentence.split(": ", 1) for sentence in sentences.values())
    return {word: meaning[0].upper() + meaning[1:] for word, meaning in parts}
