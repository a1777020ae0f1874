"""Shares as texts say them: what there is a little of is not nothing."""

from __future__ import annotations

import pytest
from kvxray_backend.analysis.verdict_signs import percent
from kvxray_backend.quantities import share_text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0%"), (0.0001, "<1%"), (0.0099, "<1%"), (0.01, "1%"), (0.5, "50%"), (0.994, ">99%"), (1, "100%")],
)
def test_a_share_in_whole_percent(share, text):
    assert share_text(share) == text


@pytest.mark.parametrize(
    ("ratio", "text"),
    [(0, "0.0%"), (0.0004, "<0.1%"), (0.0005, "0.1%"), (0.625, "62.5%"), (0.9996, ">99.9%"), (1, "100.0%")],
)
def test_a_ratio_with_one_decimal(ratio, text):
    assert percent(ratio) == text
