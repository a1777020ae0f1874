"""The design system of the page: colours, type sizes, spacing. The only place where a colour is written down.

Components get the palettes as data and turn them into CSS variables (`--kx-active`, `--kx-text-muted`); Streamlit
gets the same colours through `streamlit_options()`, of which `.streamlit/config.toml` is the written copy (a test
holds them equal). This file knows no figure, no state's meaning (`words.py`) and no number format (`formats.py`).

The colours of block states stay apart for people with protanopia, deuteranopia and tritanopia: `tests/app` simulates
the three after Machado, Oliveira and Fernandes (2009) and measures the distances in CIELAB. A leak is never told by
colour alone: it is also hatched and outlined.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

BLOCK_STATES = ("unknown", "empty", "free", "cached", "active", "shared")
"""States of a block in the order of their numbers in frames (`kvxray_engine.stream.schema.BlockState`)."""


@dataclass(frozen=True, slots=True)
class Palette:
    """All colours of one theme, as `#rrggbb` or `rgba(...)`.

    canvas, panel, raised: page, cards on it, and what floats above them. text_muted is for labels, text_faint for
    hints: both stay readable on a panel (WCAG AA, 4.5 to 1). accent marks what can be pressed or is selected, past
    whatever tells that a page shows the past. The six states of a block and `leaked` colour the map, its legend, badges
    and charts alike. scale_1 to scale_6 go from little to much: how many hold a block, how new it is. holder_1 to
    holder_7 are for one holder each. glow flashes over a block that just changed.
    """

    canvas: str
    panel: str
    raised: str
    border: str
    border_strong: str
    text: str
    text_muted: str
    text_faint: str
    accent: str
    on_accent: str
    good: str
    warning: str
    critical: str
    past: str
    unknown: str
    empty: str
    free: str
    cached: str
    active: str
    shared: str
    leaked: str
    on_shared: str
    scale_1: str
    scale_2: str
    scale_3: str
    scale_4: str
    scale_5: str
    scale_6: str
    holder_1: str
    holder_2: str
    holder_3: str
    holder_4: str
    holder_5: str
    holder_6: str
    holder_7: str
    holder_others: str
    holder_several: str
    glow: str
    veil: str
    shadow: str


LIGHT = Palette(
    canvas="#f6f7f9",
    panel="#ffffff",
    raised="#ffffff",
    border="#e3e7ee",
    border_strong="#c6cedb",
    text="#17202e",
    text_muted="#536074",
    text_faint="#616e84",
    accent="#1f62c9",
    on_accent="#ffffff",
    good="#12804f",
    warning="#9a6100",
    critical="#c0123c",
    past="#6a45cc",
    unknown="#8f83a8",
    empty="#e9edf3",
    free="#c3cbd9",
    cached="#5fb8a8",
    active="#2a6fd6",
    shared="#eea81c",
    leaked="#cf1444",
    on_shared="#2b1d00",
    scale_1="#f3d34a",
    scale_2="#9fc94f",
    scale_3="#43a879",
    scale_4="#2d7abc",
    scale_5="#375a93",
    scale_6="#3a2a66",
    holder_1="#3a9bdc",
    holder_2="#e69f00",
    holder_3="#00805c",
    holder_4="#e8d80c",
    holder_5="#d36986",
    holder_6="#c24e00",
    holder_7="#2350b0",
    holder_others="#9caab9",
    holder_several="#17202e",
    glow="#ffffff",
    veil="rgba(255, 255, 255, 0.78)",
    shadow="rgba(23, 32, 46, 0.16)",
)

DARK = Palette(
    canvas="#0b0e14",
    panel="#11161f",
    raised="#1a212d",
    border="#222b39",
    border_strong="#3a465a",
    text="#e8edf5",
    text_muted="#a2aec1",
    text_faint="#8794a9",
    accent="#62b0ff",
    on_accent="#06121f",
    good="#4cc38a",
    warning="#f0b440",
    critical="#ff6b63",
    past="#b79dff",
    unknown="#8d7fa8",
    empty="#1c2330",
    free="#37425a",
    cached="#166a60",
    active="#62b0ff",
    shared="#ffc24b",
    leaked="#ff5d55",
    on_shared="#2b1d00",
    scale_1="#3a3f7d",
    scale_2="#35639f",
    scale_3="#1a8778",
    scale_4="#4cb27f",
    scale_5="#a5cf55",
    scale_6="#ffe45c",
    holder_1="#56b4e9",
    holder_2="#e69f00",
    holder_3="#009e73",
    holder_4="#f0e442",
    holder_5="#f9779c",
    holder_6="#d55e00",
    holder_7="#3f7fd8",
    holder_others="#566379",
    holder_several="#e8edf5",
    glow="#ffffff",
    veil="rgba(17, 22, 31, 0.76)",
    shadow="rgba(0, 0, 0, 0.5)",
)

BASE_FONT_PX = 15
RADIUS_PX = 8


def palettes() -> dict[str, dict[str, str]]:
    """Both palettes as components take them: CSS variable names without `--`, e.g. `kx-text-muted`."""
    return {name: css_names(palette) for name, palette in (("light", LIGHT), ("dark", DARK))}


def css_names(palette: Palette) -> dict[str, str]:
    """A palette keyed by its CSS variable names."""
    return {f"kx-{field.replace('_', '-')}": colour for field, colour in asdict(palette).items()}


def streamlit_options() -> dict[str, Any]:
    """Streamlit options of the product, keyed as `st.set_option` and config.toml name them.

    Nothing is fetched from or sent to the internet: no statistics, no links to outside help in errors, only the fonts
    that Streamlit ships; and no page of another origin may steer ours.
    """
    options: dict[str, Any] = {
        "browser.gatherUsageStats": False,
        "client.allowedOrigins": [],
        "client.toolbarMode": "viewer",
        "client.showErrorLinks": False,
        "client.showErrorDetails": "none",
        "server.fileWatcherType": "none",
        "theme.font": "sans-serif",
        "theme.codeFont": "monospace",
        "theme.baseFontSize": BASE_FONT_PX,
        "theme.baseRadius": f"{RADIUS_PX}px",
        "theme.headingFontSizes": ["1.55rem", "1.2rem", "1.07rem", "1rem", "1rem", "1rem"],
        "theme.headingFontWeights": [600, 600, 600, 600, 600, 600],
        "theme.metricValueFontSize": "1.55rem",
        "theme.showWidgetBorder": True,
    }
    for name, palette in (("light", LIGHT), ("dark", DARK)):
        options |= {f"theme.{name}.{option}": colour for option, colour in _streamlit_colours(palette).items()}
    return options


def _streamlit_colours(palette: Palette) -> dict[str, str]:
    return {
        "primaryColor": palette.accent,
        "backgroundColor": palette.canvas,
        "secondaryBackgroundColor": palette.panel,
        "textColor": palette.text,
        "linkColor": palette.accent,
        "borderColor": palette.border,
        "dataframeBorderColor": palette.border,
        "dataframeHeaderBackgroundColor": palette.panel,
        "codeBackgroundColor": palette.panel,
        "codeTextColor": palette.text,
        "redColor": palette.critical,
        "orangeColor": palette.warning,
        "yellowColor": palette.shared,
        "greenColor": palette.good,
        "blueColor": palette.active,
        "violetColor": palette.unknown,
        "grayColor": palette.text_muted,
    }
