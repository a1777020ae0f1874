"""What `/api/signals` and its course answer, made by the backend's own code out of pages that a test writes."""

from __future__ import annotations

from typing import Any

from kvxray_backend.metrics.book import MetricsBook
from kvxray_backend.metrics.exposition import parse_page
from kvxray_backend.metrics.minute import latest
from kvxray_backend.metrics.ratios import RATIOS
from kvxray_backend.metrics.signals import SIGNALS
from kvxray_backend.signal_course import course
from kvxray_backend.signal_history import Timed
from kvxray_backend.signals_view import Reading, course_view, now_of, topics, window_of

T0_S = 1_800_000_000
EVERY_S = 60


class Metrics:
    """An engine whose pages come a minute apart; None: the page could not be read."""

    def __init__(self, *pages: str | None) -> None:
        self.book = MetricsBook()
        self.told: list[Timed] = []
        for number, text in enumerate(pages):
            if text is not None:
                at_s = T0_S + EVERY_S * number
                self.book.take(at_s, parse_page(text.encode()))
                self.told.append(Timed(at_s, EVERY_S, latest(self.book)))
        self.num = len(pages)

    def signals(self, *, with_untold: bool = False, state: str = "reading", stale: bool = False) -> dict[str, Any]:
        reading = Reading(window_of(self.told), now_of(self.book))
        status = {"state": state, "sentence": "Read every 60 s.", "last": "2027-01-15T08:00:00.000Z", "stale": stale}
        status |= {"make": "vLLM", "pages": self.num, "bad_lines": 0, "left_out": 0, "window_s": 300}
        told = [topic.model_dump() for topic in topics(reading, with_untold=with_untold)]
        return {"engine": "e", "at": status["last"], "topics": told, "status": status}

    def course(self) -> dict[str, Any]:
        end_s = T0_S + EVERY_S * (self.num - 1)
        made = course(self.told, [*SIGNALS, *RATIOS], T0_S, end_s, EVERY_S)
        return course_view("e", made, heat=True).model_dump()
