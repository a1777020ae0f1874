"""When the analyses of a source run: often, but never at the cost of following it."""

from __future__ import annotations

from kvxray_backend.analysis.inspector import INSPECT_EVERY_NS, Inspector
from kvxray_backend.live_state import LiveState

from tests.backend.told import SECOND, HandClock


class Watched:
    """An inspector whose every inspection takes so long; `inspections`: when they began."""

    def __init__(self, takes_ns: int) -> None:
        self.clock = HandClock(0)
        self.takes_ns = takes_ns
        self.inspections: list[int] = []
        self.inspector = Inspector(LiveState("told"), self.clock, store=lambda _: None, storage_failure=self._inspected)

    def _inspected(self) -> None:
        self.inspections.append(self.clock.now)
        self.clock.now += self.takes_ns

    def run(self, seconds: int) -> None:
        """Something is heard a hundred times a second, and each time looked whether an inspection is due."""
        while self.clock.now < seconds * SECOND:
            self.inspector.bad_message("spoilt")
            self.inspector.inspect(self.clock.now)
            self.clock.now += SECOND // 100


def test_inspections_that_take_no_time_come_twice_a_second() -> None:
    watched = Watched(takes_ns=0)
    watched.run(seconds=10)
    assert len(watched.inspections) == 19
    apart = {after - before for before, after in zip(watched.inspections, watched.inspections[1:], strict=False)}
    assert apart == {INSPECT_EVERY_NS}


def test_inspections_that_take_long_take_a_twentieth_of_the_time() -> None:
    watched = Watched(takes_ns=SECOND // 4)
    watched.run(seconds=60)
    busy = len(watched.inspections) * watched.takes_ns
    assert 0.04 * 60 * SECOND < busy <= 0.05 * 60 * SECOND + watched.takes_ns
