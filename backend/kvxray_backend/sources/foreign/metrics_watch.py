"""What the metrics of one engine say beside its events: resets, contradictions, why its prefix cache does nothing."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.findings_list import FindingsList
from kvxray_backend.analysis.metrics_findings import config_finding, contradiction_finding, counter_reset_finding
from kvxray_backend.analysis.stream_findings import Work
from kvxray_backend.analysis.stream_health import Place
from kvxray_backend.metrics.book import MetricsBook
from kvxray_backend.metrics.configuration import Configuration, configurations, pool_shape
from kvxray_backend.metrics.configuration_check import Reason, Traffic, check_block_size, check_configuration
from kvxray_backend.metrics.contradictions import Told, contradictions, flapping
from kvxray_backend.metrics.exposition import Page
from kvxray_backend.metrics.reading import PageReading, read_page

MAX_RESETS: Final = 100
SET_BACK_S: Final = 5.0
"""By less a clock is corrected all the time."""
_AWAKE: Final = "awake"


class MetricsWatch:
    """Pages of one engine, in their order. What events say is told to it when it is asked."""

    def __init__(self, engine: str) -> None:
        self.book = MetricsBook()
        self._engine = engine
        self._of_pages: tuple[Configuration, ...] = ()
        self._of_server: Configuration | None = None
        self._moments = FindingsList()
        self._resets_s: list[float] = []

    @property
    def work(self) -> Work | None:
        """What the last page tells of it; None: it does not say."""
        if self.book.parts("sleep_state").get(_AWAKE) == 0:
            return "sleeps"
        running, waiting = self.book.value("requests_running"), self.book.value("requests_waiting")
        if running or waiting:
            return "works"
        return None if running is None and waiting is None else "idle"

    @property
    def num_blocks(self) -> int | None:
        """Of the engine's GPU cache, all its ranks together, as its configuration tells; None: it does not."""
        shapes = [shape for one in self._configurations if (shape := pool_shape(one)) is not None]
        return sum(shape.usable_blocks for shape in shapes) if shapes else None

    def take(self, at_s: float, page: Page, reading: PageReading | None = None) -> None:
        """A page as it was read at `at_s`; reading: what it tells, where that is known already."""
        reset = self.book.take_reading(at_s, reading if reading is not None else read_page(page))
        self._of_pages = configurations(page) or self._of_pages
        if reset is not None:
            self._moments.note(counter_reset_finding(self._place, reset))
            self._resets_s = [*self._resets_s, reset.at_s][-MAX_RESETS:]

    def lies_ahead(self, at_s: float, now_s: float) -> bool:
        """Whether the clock was set back between the last page and the one of `at_s`: until it has caught up every page
        would come late. A Prometheus whose clock is ahead of ours goes on.
        """
        last_s = self.book.last_s
        return last_s is not None and last_s > max(at_s, now_s + SET_BACK_S)

    def begun_anew(self) -> MetricsWatch:
        """Without what was read; what the server said of itself stands."""
        anew = MetricsWatch(self._engine)
        anew._of_pages, anew._of_server = self._of_pages, self._of_server
        return anew

    def take_configuration(self, configuration: Configuration) -> None:
        """What the server says of itself beside its metrics; where both tell a field, its metrics count."""
        self._of_server = configuration

    @property
    def _configurations(self) -> tuple[Configuration, ...]:
        server = self._of_server
        if server is None:
            return self._of_pages
        if not self._of_pages:
            return (server,)
        return tuple(replace(one, fields={**server.fields, **one.fields}) for one in self._of_pages)

    def reasons(self, block_size: int, spec_kinds: Collection[str] = ()) -> tuple[Reason, ...]:
        """Why the prefix cache does nothing. block_size, spec_kinds: as events tell, 0 and empty where they do not."""
        traffic = Traffic(
            queries=self.book.value("prefix_queries"),
            hits=self.book.value("prefix_hits"),
            spec_kinds=spec_kinds,
            block_size=block_size or None,
        )
        if not self._configurations:
            reason = check_block_size(traffic)
            return (reason,) if reason is not None else ()
        return tuple(reason for one in self._configurations for reason in check_configuration(one, traffic))

    def findings(self, block_size: int, spec_kinds: Collection[str], told: Told | None) -> list[Finding]:
        """Everything found, what is over included. told: what events say now, None where there are none."""
        found = contradictions(self.book, None, told)
        flaps = flapping(self._resets_s)
        states = [contradiction_finding(self._place, one) for one in [*found, *([flaps] if flaps else [])]]
        reasons = [config_finding(self._place, reason) for reason in self.reasons(block_size, spec_kinds)]
        return [*self._moments.all, *states, *reasons]

    @property
    def _place(self) -> Place:
        return Place(self._engine, 0, 0, round((self.book.last_s or 0.0) * 1e9))
