"""What the metrics of an engine told at a moment of the past, as figures, and which reading they are of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kvxray_backend import overview_signals
from kvxray_backend.analysis.verdict_of_router import RouterSigns
from kvxray_backend.figure import Figure
from kvxray_backend.metrics.past_book import PastBook
from kvxray_backend.moments import iso_time
from kvxray_backend.router_signals import router_signs
from kvxray_backend.signal_history import SignalHistory, Timed

MINUTE_S: Final = 60.0
MAX_APART_S: Final = 120.0
"""A reading that ended longer before the moment tells nothing of it, unless they are always as far apart."""


@dataclass(frozen=True, slots=True, eq=False)
class MetricsThen:
    """`figures`: by the names of the overview. `read_s`: when the reading ended that they are of; `seconds`: how long
    it took, a minute where it is older than an hour. `router`: what they told of one.
    """

    figures: dict[str, Figure]
    read_s: float
    seconds: float
    router: RouterSigns = RouterSigns()

    @property
    def sentence(self) -> str:
        if self.seconds < MINUTE_S:
            return (
                f"What is in use, hits and requests are as metrics told them at {iso_time(round(self.read_s * 1e9))}."
            )
        begin = iso_time(round((self.read_s - self.seconds) * 1e9))
        return (
            f"What is in use, hits and requests are as metrics told them in the {self.seconds:.0f} s from {begin} on."
        )


def metrics_then(history: SignalHistory, engine: str, at_s: float, every_s: float = 0.0) -> MetricsThen | None:
    """every_s: seconds between two readings, as far as that is known. None: nothing is kept of what they told then."""
    apart_s = max(MAX_APART_S, 1.2 * every_s)
    # The minute in which the moment lies ends after it.
    told = history.between(engine, at_s - overview_signals.HOUR_S, at_s + MINUTE_S)
    until = [one for one in told if one.at_s <= at_s or _covers(one, at_s)]
    if not until or at_s - until[-1].at_s > apart_s:
        return None
    book = PastBook([(one.at_s, one.stretch) for one in until])
    return MetricsThen(overview_signals.figures_of_past(book), until[-1].at_s, until[-1].seconds, router_signs(book))


def _covers(one: Timed, at_s: float) -> bool:
    """Not one after a long silence: it tells how all stood when that was over."""
    return MINUTE_S <= one.seconds <= MAX_APART_S and one.at_s - one.seconds <= at_s
