"""What a person sees of the block map, as pixels: to compare two pages, and to hold the colours to the palette."""

from __future__ import annotations

import io
from typing import Literal

import numpy as np
from kvxray_app.theme import palettes
from numpy.typing import NDArray
from PIL import Image
from playwright.sync_api import Browser, Page

from tests.app.browser import PATIENCE_MS

Scheme = Literal["dark", "light"]

VIEW = {"width": 1400, "height": 1000}
ALONE = ".st-key-time_bar { visibility: hidden }"
"""Style while the map is looked at: the bar at the foot lies over its lower part."""


def open_page(chromium: Browser, scheme: Scheme) -> Page:
    """A tab in a browser of its own, where nothing glows after a change: two looks at a moment see the same."""
    context = chromium.new_context(viewport=VIEW, color_scheme=scheme, reduced_motion="reduce")
    context.set_default_timeout(PATIENCE_MS)
    return context.new_page()


def picture(page: Page, side: int = 0) -> bytes:
    """The map as a PNG, with nothing pointed at; side 1: the map of the moment beside it."""
    page.mouse.move(1, 1)
    return page.locator(".st-key-block_map .stage").nth(side).screenshot(animations="disabled", style=ALONE)


def cells_coloured(page: Page, state: str, scheme: Scheme) -> int:
    """How many cells of the map have the palette's colour of a state in their centre."""
    colour = palettes()[scheme][f"kx-{state}"].lstrip("#")
    wanted = np.array([int(colour[at : at + 2], 16) for at in (0, 2, 4)])
    centres = page.evaluate(
        """() => {
          const total = Object.values(__kvxray.counts()).reduce((sum, count) => sum + count, 0);
          return Array.from({ length: total }, (_, at) => __kvxray.map.cellCentre(at + 1));
        }"""
    )
    pixels = _pixels(page)
    found = [pixels[round(centre["y"]), round(centre["x"])] for centre in centres]
    return int((np.abs(np.array(found).astype(int) - wanted).max(axis=1) <= 1).sum())


def _pixels(page: Page) -> NDArray[np.uint8]:
    """The whole page as red, green and blue, in page coordinates."""
    page.mouse.move(1, 1)
    shot = page.screenshot(full_page=True, animations="disabled", style=ALONE)
    return np.asarray(Image.open(io.BytesIO(shot)).convert("RGB"))
