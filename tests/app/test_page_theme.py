"""The palette is readable, safe for colour-blind eyes and the only place with colours; Streamlit is told the same."""

from __future__ import annotations

import itertools
import math
import re
import tomllib
from pathlib import Path

import kvxray_app
import pytest
from kvxray_app.theme import BLOCK_STATES, DARK, LIGHT, Palette, streamlit_options
from kvxray_engine.stream.schema import BlockState

APP = Path(kvxray_app.__file__).parent
PALETTES = {"light": LIGHT, "dark": DARK}

# Linear RGB as seen with a full lack of one kind of cone: Machado, Oliveira and Fernandes 2009, severity 1.0.
EYES = {
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}


def linear(colour: str) -> list[float]:
    channels = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in channels]


def lab(rgb: list[float]) -> tuple[float, float, float]:
    """CIELAB (D65) of linear RGB."""
    rows = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    white = (0.95047, 1.0, 1.08883)
    xyz = [sum(a * b for a, b in zip(row, rgb, strict=True)) / scale for row, scale in zip(rows, white, strict=True)]
    x, y, z = (part ** (1 / 3) if part > 0.008856 else 7.787 * part + 16 / 116 for part in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def seen(colour: str, eyes: str) -> tuple[float, float, float]:
    rgb = linear(colour)
    return lab([min(1, max(0, sum(a * b for a, b in zip(row, rgb, strict=True)))) for row in EYES[eyes]])


def contrast(one: str, other: str) -> float:
    """WCAG contrast ratio."""
    lights = sorted(sum(a * b for a, b in zip((0.2126, 0.7152, 0.0722), linear(c), strict=True)) for c in (one, other))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


# What the map tells apart by colour alone in each of its modes.
TOLD_APART = {
    "states": (*BLOCK_STATES, "leaked"),
    "steps": ("unknown", "empty", *(f"scale_{step}" for step in range(1, 7))),
    "holders": ("unknown", "empty", *(f"holder_{at}" for at in range(1, 8)), "holder_others", "holder_several"),
}


@pytest.mark.parametrize("palette", PALETTES.values(), ids=PALETTES)
@pytest.mark.parametrize("eyes", EYES)
@pytest.mark.parametrize("names", TOLD_APART.values(), ids=TOLD_APART)
def test_colours_of_the_map_stay_apart(names: tuple[str, ...], palette: Palette, eyes: str) -> None:
    colours = {name: getattr(palette, name) for name in names}
    for one, other in itertools.combinations(colours, 2):
        distance = math.dist(seen(colours[one], eyes), seen(colours[other], eyes))
        assert distance > 11, f"{one} and {other} look alike: {distance:.1f}"


@pytest.mark.parametrize("palette", PALETTES.values(), ids=PALETTES)
@pytest.mark.parametrize("eyes", EYES)
def test_steps_of_the_scale_grow_away_from_the_panel(palette: Palette, eyes: str) -> None:
    ground = seen(palette.panel, eyes)[0]
    contrasts = [abs(seen(getattr(palette, f"scale_{step}"), eyes)[0] - ground) for step in range(1, 7)]
    assert contrasts == sorted(contrasts)


@pytest.mark.parametrize("palette", PALETTES.values(), ids=PALETTES)
def test_text_is_readable(palette: Palette) -> None:
    for name in ("text", "text_muted", "text_faint", "accent", "good", "warning", "critical", "leaked"):
        for ground in (palette.canvas, palette.panel, palette.raised):
            assert contrast(getattr(palette, name), ground) >= 4.5, f"{name} on {ground}"
    assert contrast(palette.on_shared, palette.shared) >= 4.5
    assert contrast(palette.on_accent, palette.accent) >= 4.5


def test_states_are_those_of_the_stream_in_their_order() -> None:
    assert tuple(state.name for state in BlockState) == BLOCK_STATES


def test_colours_are_written_only_in_the_theme() -> None:
    hexadecimal = r"(?<![.\w])#(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6}|[0-9a-fA-F]{8})(?=[\"'`;, )])"
    literal = re.compile(rf"{hexadecimal}|\brgba?\(\d|\bhsla?\(")
    assert literal.search("color: #fff;")
    assert literal.search('fill="#1f9a8c"')
    files = [path for suffix in ("py", "js", "css") for path in APP.rglob(f"*.{suffix}") if path.name != "theme.py"]
    assert len(files) > 40
    assert {path.name: literal.findall(path.read_text("utf-8")) for path in files} == {path.name: [] for path in files}


def test_streamlits_configuration_is_written_from_the_theme() -> None:
    written = tomllib.loads((APP / ".streamlit" / "config.toml").read_text("utf-8"))
    flat = dict(flatten("", written))
    assert flat == streamlit_options()


def test_streamlit_knows_every_option() -> None:
    from streamlit import config

    known = set(config.get_config_options())
    assert set(streamlit_options()) <= known


def flatten(prefix: str, table: dict[str, object]) -> list[tuple[str, object]]:
    entries: list[tuple[str, object]] = []
    for name, value in table.items():
        path = f"{prefix}.{name}" if prefix else name
        entries += flatten(path, value) if isinstance(value, dict) else [(path, value)]
    return entries
