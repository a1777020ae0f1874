"""The JSON of `/api/course`: figures over time, as charts draw them."""

from __future__ import annotations

from pydantic import Field

from kvxray_backend.api_types import Answer
from kvxray_backend.history_types import OverTime


class WindowsView(Answer):
    """Seconds of the events' time over which figures are told."""

    rate_s: int = Field(description="Rates.")
    hit_rate_s: int = Field(description="The hit rate.")
    latency_s: int = Field(description="Quantiles of latencies.")


class CourseView(OverTime):
    """Figures over time as a page would have told them then; within an epoch a bucket for every stretch, also quiet."""

    windows: WindowsView = Field(description="What figures are told over.")
    series: dict[str, list[float | None]] = Field(
        description="Values at the end of each bucket by name, their lowest and highest in it as _min and _max; null "
        "where there is nothing to say."
    )
