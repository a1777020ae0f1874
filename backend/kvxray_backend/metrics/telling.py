"""What figures ask of metrics, of the present and of the past alike."""

from __future__ import annotations

from typing import Protocol

from kvxray_backend.metrics.histograms import Buckets, Quantile
from kvxray_backend.metrics.ratio import Ratio
from kvxray_backend.metrics.series import Grown


class Telling(Protocol):
    """As `MetricsBook` says. What is asked without a window is of the last reading."""

    @property
    def read_s(self) -> float | None:
        """When the last reading was; None: never."""

    def is_told(self, signal: str) -> bool: ...

    def value(self, signal: str, part: str | None = None) -> float | None: ...

    def course(self, signal: str, part: str | None = None) -> list[tuple[float, float]]: ...

    def peaks(self, signal: str) -> list[tuple[float, float]]:
        """The highest that a gauge was known to stand at, in each reading of its course."""

    def grown(self, signal: str, window_s: float, part: str | None = None) -> Grown[float] | None: ...

    def rate(self, signal: str, window_s: float, part: str | None = None) -> float | None: ...

    def ratio(self, numerator: str, denominator: str, window_s: float | None) -> Ratio | None: ...

    def histogram(self, signal: str, window_s: float | None) -> Buckets | None: ...

    def quantile(self, signal: str, q: float, window_s: float | None) -> Quantile | None: ...
