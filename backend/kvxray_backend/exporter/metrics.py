"""Every metric that kvxray exports, by its name, in the order of the page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvxray_backend.exporter.figure_metrics import FIGURE_METRICS
from kvxray_backend.exporter.fixed_metrics import FIXED
from kvxray_backend.exporter.metric import Metric
from kvxray_backend.exporter.signal_metrics import SIGNAL_METRICS

_ALL: Final = (*FIXED, *FIGURE_METRICS.values(), *SIGNAL_METRICS.values())
METRICS: Final[Mapping[str, Metric]] = {metric.name: metric for metric in _ALL}

assert len(METRICS) == len(_ALL), "two metrics have one name"
