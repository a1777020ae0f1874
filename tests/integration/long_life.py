"""A day and more of a real engine's life on a clock of its own: bursts of steps with quiet in between, the last minutes
stored step by step, so that every gauge was read after every step of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fastapi.testclient import TestClient

from tests.backend.served import backend_of, caught_up, serving, source_of, until
from tests.integration.recount import Event
from tests.integration.watched_life import MS, Engine, MillisecondClock, all_events, get

HOUR: Final = 3600
BURST_S: Final = 4
END_S: Final = 26 * HOUR
LAST_S: Final = END_S - 480
PAST_S: Final = END_S - 40
BURSTS_AT: Final = (
    *range(10, END_S - 2 * HOUR, 1500),
    *range(END_S - 2 * HOUR, LAST_S, 171),
    *range(LAST_S, PAST_S - 60, 23),
    PAST_S - 58,
    END_S - 75,
    END_S - 58,
    PAST_S + 2,
    END_S - 9,
)
"""Seconds since its birth; what runs at the end of a burst goes on in the next. After PAST_S steps are few and slow, so
that the last minute is not like its last seconds.
"""


@dataclass(frozen=True)
class LongLife:
    """`moments`: by name how the API is asked for each, and the ms since 1970 that it tells of."""

    http: TestClient
    events: list[Event]
    moments: dict[str, tuple[dict[str, str], int]]

    def figures(self, moment: str) -> dict[str, dict[str, Any]]:
        """Of the overview, by name."""
        (engine,) = get(self.http, "/api/overview", **self.moments[moment][0])["engines"]
        figures: dict[str, dict[str, Any]] = engine["figures"]
        return figures


@contextmanager
def long_life(folder: Path) -> Iterator[LongLife]:
    """Up to its last second, still followed."""
    began_s = (int(time.time()) - END_S - 120) // 60 * 60 + 17  # no minute of the clock is one of its life
    engine = Engine(MillisecondClock(began_s * 1000 * MS))
    with engine.small, serving(folder, source_of(engine.small)) as http:
        caught_up(http, engine.small)  # joined before anything happens, so that all of it is known
        past = _live(engine, http)
        live = backend_of(http).sources["engine"].live
        until(lambda: live.engine_time.t_ns == engine.clock.wall_ns())
        events, end_ms = all_events(http), engine.clock.wall_ns() // MS
        yield LongLife(http, events, {"past": ({"at": past}, (began_s + PAST_S) * 1000), "live": ({}, end_ms)})


def _live(engine: Engine, http: TestClient) -> str:
    """Lives until the end; the first event at PAST_S."""
    past = ""
    for second in BURSTS_AT:
        if second > PAST_S and not past:
            past = _step_at(engine, http, PAST_S)
        engine.wait_until(1000 * second)
        if second < LAST_S:
            engine.live_until(second + BURST_S)
            caught_up(http, engine.small)
        elif second < PAST_S:
            _burst_by_step(engine, http, second)
        else:
            for at_s in (second, second + 1):
                _step_at(engine, http, at_s)
    engine.wait_until(1000 * END_S + 300)
    return past


def _burst_by_step(engine: Engine, http: TestClient, second: int) -> None:
    engine.live_until(second + BURST_S, after_step=lambda: _store(engine, http))
    if second == LAST_S:
        engine.leak()
        _store(engine, http)


def _step_at(engine: Engine, http: TestClient, second: int) -> str:
    seq = engine.small.recorder.next_seq
    engine.step_at(second)
    _store(engine, http)
    return f"1.{seq}"


def _store(engine: Engine, http: TestClient) -> None:
    caught_up(http, engine.small)
    assert backend_of(http).log.flush(60)
