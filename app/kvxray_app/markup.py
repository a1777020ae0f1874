"""Text and small pieces of HTML for pages that Streamlit draws itself.

Request ids, sentences and labels come from outside: `plain` makes them harmless in Markdown, `html.escape` in HTML.
Colours are CSS variables of the palette that the reader's theme calls for.
"""

from __future__ import annotations

import re
from html import escape

import streamlit as st

from kvxray_app.theme import DARK, LIGHT, css_names

_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>~$:&])")


def plain(text: str) -> str:
    """Text that Markdown shows as it is."""
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


def colour_variables() -> str:
    """Declarations of the palette of the theme in force, for a style attribute."""
    palette = DARK if st.context.theme.type == "dark" else LIGHT
    return "; ".join(f"--{name}: {colour}" for name, colour in css_names(palette).items())


def definitions(title: str, entries: dict[str, str], swatches: bool = False) -> str:
    """A titled list of words and their meanings, with the state's colour before each when `swatches`."""
    rows = "".join(
        f"<dt>{_swatch(word) if swatches else ''}{escape(word)}</dt><dd>{escape(meaning)}</dd>"
        for word, meaning in entries.items()
    )
    return f'<section class="kx-words"><h2>{escape(title)}</h2><dl>{rows}</dl></section>'


def _swatch(state: str) -> str:
    return f'<i class="kx-swatch {escape(state)}"></i>'
