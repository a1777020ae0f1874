"""What is said of many measurements of one thing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def percentile(values: Sequence[float], share: float) -> float:
    """`share` percent of the values are not above it."""
    return float(np.percentile(np.asarray(values), share))


def milliseconds(seconds: Sequence[float], share: float) -> float:
    return round(percentile(seconds, share) * 1000, 3)
