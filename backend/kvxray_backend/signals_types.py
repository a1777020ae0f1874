"""The JSON of `/api/signals` and `/api/signals/course`. Only shapes."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kvxray_backend.api_types import Answer, Time
from kvxray_backend.figure import Certainty, Unit

Kind = Literal["gauge", "counter", "histogram", "ratio"]


class PartView(Answer):
    """One part of a signal that is split."""

    labels: dict[str, str] = Field(description="The label that tells it apart, and its value.")
    value: float | None = Field(description="As the signal's own value.")
    rate_per_s: float | None = Field(description="As the signal's own rate.")


class SignalView(Answer):
    """One thing that metrics tell. What is not told is null, and so is what there is no data for; never 0."""

    name: str = Field(description="Its name in docs/signals.md, or that of a ratio of two.")
    label: str = Field(description="A few words for people.")
    unit: Unit = Field(description="What is counted; of a histogram, what is spread.")
    kind: Kind = Field(description="gauge, counter, histogram or ratio.")
    certainty: Certainty = Field(description="exact, derived, or not_observable where it is not told.")
    meaning: str = Field(description="What it says, in a sentence.")
    value: float | None = Field(
        description="A gauge: how it stands. A counter: all since its engine started. A ratio: over the window."
    )
    parts: list[PartView] = Field(description="The same by part, the largest first, at most 16.")
    rate_per_s: float | None = Field(description="A counter, or the values of a histogram: a second, over the window.")
    p50: float | None = Field(description="The median of a histogram, over the window.")
    p99: float | None = Field(description="Its highest in a hundred.")
    mean: float | None = Field(description="Its mean; null where no sum is told.")
    told_by: str | None = Field(description="The metrics that it is read from; null of the past.")


class TopicView(Answer):
    """Signals that belong together, as docs/signals.md has them."""

    title: str = Field(description="Its heading.")
    signals: list[SignalView] = Field(description="Its signals; ratios first.")


class SignalsStatusView(Answer):
    """How reading goes."""

    state: Literal["none", "reading", "failing"] = Field(description="none: there is nothing to read.")
    sentence: str = Field(description="The same in a sentence.")
    last: Time | None = Field(description="When metrics were read last; null for never.")
    stale: bool = Field(description="True: what was read last no longer tells how things are.")
    make: str = Field(description="Who told them, such as vLLM, LMCache; empty where nobody did.")
    pages: int = Field(description="Pages read since it was attached.")
    bad_lines: int = Field(description="Lines of them that could not be read.")
    left_out: int = Field(description="Series left out since there were too many.")
    window_s: float = Field(description="Seconds over which rates, quantiles and ratios are told.")


class SignalsView(Answer):
    """All that the metrics of one engine tell."""

    engine: str = Field(description="Its name.")
    at: Time | None = Field(description="The moment that this is of; null before anything was read.")
    topics: list[TopicView] = Field(description="Topics with something in them.")
    status: SignalsStatusView = Field(description="How reading goes.")


class HeatView(Answer):
    """One bucket of a histogram over time."""

    lower: float = Field(description="Its lower bound.")
    upper: float | None = Field(description="Its upper bound; null: it has none.")
    counts: list[float] = Field(description="Values that fell into it, by bucket of time.")


class LineView(Answer):
    """A signal over time; null where nothing was told, or nothing was counted."""

    label: str = Field(description="A few words for people.")
    unit: Unit = Field(description="What is counted.")
    kind: Kind = Field(description="gauge, counter, histogram or ratio.")
    values: list[float | None] = Field(
        description="A gauge: its mean. A counter: a second. A histogram: its median. A ratio: of what grew meanwhile."
    )
    more: dict[str, list[float | None]] = Field(
        description="A gauge: highest. A histogram: p50, p90, p99, mean, rate (values a second), total_rate."
    )
    parts: dict[str, list[float | None]] = Field(description="`values` by part; of many, the 16 largest.")
    total: float | None = Field(description="What a counter grew by over the whole stretch, as far as it was read.")
    heat: list[HeatView] = Field(description="With heat=1, of a histogram: its buckets, the lowest first.")


class SignalsCourseView(Answer):
    """Signals over a stretch of time."""

    engine: str = Field(description="Whose.")
    step_s: int = Field(description="Seconds of a bucket; never less than lies between two readings.")
    times: list[Time] = Field(description="When each bucket begins.")
    series: dict[str, LineView] = Field(description="By signal.")
