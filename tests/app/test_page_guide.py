"""The guide in a real browser: large enough to read on a wall."""

from __future__ import annotations

import html

import pytest
from kvxray_app.components.alerts import STAND_MEANINGS, STANDS
from playwright.sync_api import Browser
from streamlit.testing.v1 import AppTest

pytestmark = pytest.mark.browser

LINE = "document.querySelector('.kx-guide h2').getBoundingClientRect().height"


def guide_page() -> str:
    def script() -> None:
        from kvxray_app.views.guide import guide

        guide()

    page = AppTest.from_function(script, default_timeout=90).run()
    assert not page.exception
    body = "".join(block.body for block in page.get("html"))
    return f'<!doctype html><meta charset="utf-8"><body style="margin: 0; font: 16px sans-serif">{body}'


def test_on_a_wall_the_guide_is_larger_and_still_fits(chromium: Browser) -> None:
    page = chromium.new_page(viewport={"width": 1920, "height": 1080})
    page.set_content(guide_page())
    beside = page.evaluate(LINE)
    page.set_viewport_size({"width": 3840, "height": 2160})
    assert page.evaluate(LINE) / beside > 1.3
    assert page.evaluate("document.documentElement.scrollWidth") <= 3840
    page.set_viewport_size({"width": 3840, "height": 1200})
    assert page.evaluate(LINE) == beside
    page.close()


def test_it_says_how_a_rule_can_stand_in_the_words_of_the_page_of_alerts() -> None:
    guide = html.unescape(guide_page()).lower()
    for stand, word in STANDS.items():
        assert f">{word}<" in guide
        assert STAND_MEANINGS[stand].lower() in guide
