"""Some minutes of a real engine's life on a clock of its own, followed through real sockets into a real database, and
what the API tells of it: live, and at moments of the past.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient
from kvxray_engine.clock import VirtualClock
from kvxray_engine.null_model import NullModel
from kvxray_engine.step_batch import ScheduledSequence

from tests.backend.served import backend_of, caught_up, serving, source_of, until
from tests.backend.small_engine import SmallEngine
from tests.integration.recount import Event, Recount

MS = 1_000_000
NUM_BLOCKS = 33
BLOCK_SIZE = 16
EARLY_S, PAST_S, PAUSE_S, AFTER_PAUSE_S, END_S = 15, 100, 115, 128, 170
LEAK_AT_S = (40, 60)
LEAK_FOUND_S = 10
FOLLOWED_EVERY_S = 5
"""The backend is never further behind: the present is told of what it has heard by then."""


class MillisecondClock(VirtualClock):
    """Goes on by whole milliseconds: the API tells times no finer."""

    def advance_ns(self, ns: int) -> None:
        super().advance_ns(-(-ns // MS) * MS)


class BusyModel(NullModel):
    """`meanwhile` happens while it computes."""

    def __init__(self, clock: VirtualClock, meanwhile: Callable[[], None]) -> None:
        super().__init__(NUM_BLOCKS, BLOCK_SIZE, clock=clock)
        self.clock, self.meanwhile = clock, meanwhile

    def execute(self, batch: Sequence[ScheduledSequence]) -> list[int]:
        tokens = super().execute(batch)
        self.meanwhile()
        self.clock.advance_ns(7 * MS)
        return tokens


class Engine:
    """A small pool, so that requests wait, preempt and evict each other; two that are aborted leak.

    No step lasts beyond its second, so that nothing is told half in a window of the figures.
    """

    def __init__(self, clock: MillisecondClock) -> None:
        self.clock = clock
        self.small = SmallEngine(clock=clock, leak=True, num_blocks=NUM_BLOCKS, seed=3)
        self.small.engine.model = BusyModel(clock, self._arrive_meanwhile)
        self._random = random.Random(11)
        self._began_ns = clock.wall_ns()
        self.hashes: list[bytes] = []
        self._hear_of_hashes()

    def _hear_of_hashes(self) -> None:
        """Events name hashes by numbers in the order in which they are cached: here are the hashes."""
        recorder = self.small.recorder
        tell = recorder.cached

        def cached(req: int, blocks: list[int], hashes: list[bytes], parent: int, group: int = 0) -> int:
            self.hashes += hashes
            return tell(req, blocks, hashes, parent, group)

        recorder.cached = cached  # type: ignore[method-assign]

    @property
    def now_ms(self) -> int:
        """Since it began."""
        return (self.clock.wall_ns() - self._began_ns) // MS

    def wait_until(self, ms: int) -> None:
        self.clock.advance_ns((ms - self.now_ms) * MS)

    def live_until(self, seconds: int, after_step: Callable[[], None] = lambda: None) -> None:
        """Steps up to then, the last of them well before: what follows is later."""
        while True:
            at = self.now_ms + self._random.randrange(60, 500)
            at += 1010 - at % 1000 if at % 1000 > 900 or at % 1000 < 10 else 0
            if at > 1000 * seconds - 200:
                self.wait_until(1000 * seconds - 100)
                return
            self.wait_until(at)
            if self._random.random() < 0.25 or not self.small.engine.has_work:
                self._add()
            self.small.step()
            after_step()

    def step_at(self, seconds: int) -> None:
        """Something arrives at this very second."""
        self.wait_until(1000 * seconds)
        self._add()
        self.small.step()

    def leak(self) -> None:
        """Abort a request that holds blocks."""
        running = self.small.engine.scheduler.running
        self.small.abort(running[0].request_id)
        self.small.step()

    def _arrive_meanwhile(self) -> None:
        if self._random.random() < 0.1:
            self._add()

    def _add(self) -> None:
        self.small.add(prompt=self._random.randrange(20, 120), output=self._random.randrange(2, 40))


@dataclass(frozen=True)
class Moment:
    """`query`: how the API is asked for it. `truth`: everything recounted up to it."""

    query: dict[str, str]
    truth: Recount


@dataclass(frozen=True)
class Life:
    """`moments` by name. `events`: all that happened. `early`: the moment that the recount begins at. `hashes`: those
    cached, in order.
    """

    http: TestClient
    moments: dict[str, Moment]
    events: list[Event]
    early: str
    hashes: list[bytes]

    def get(self, path: str, **query: Any) -> Any:
        return get(self.http, path, **query)


def get(http: TestClient, path: str, **query: Any) -> Any:
    answer = http.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


@contextmanager
def watched_life(folder: Path) -> Iterator[Life]:
    """A life up to its last second, still followed."""
    engine = Engine(MillisecondClock((int(time.time()) // 60 - 4) * 60_000 * MS))
    with engine.small, serving(folder, source_of(engine.small)) as http:
        caught_up(http, engine.small)  # joined before anything happens, so that all of it is known
        at = _live(engine, http)
        live = backend_of(http).sources["engine"].live
        end_ns = engine.clock.wall_ns()
        until(lambda: live.engine_time.t_ns == end_ns and len(live.leaks) == len(LEAK_AT_S))
        assert backend_of(http).log.flush(60)
        events, early = all_events(http), at.pop("early")
        moments = {name: Moment({"at": seq}, truth_at(http, early, events, seq)) for name, seq in at.items()}
        now = truth_at(http, early, events, events[-1]["seq"])
        now.now_ms = end_ns // MS
        yield Life(http, moments | {"live": Moment({}, now)}, events, early, engine.hashes)


def _live(engine: Engine, http: TestClient) -> dict[str, str]:
    """Lives until the end; the past moments by name."""
    at = {}
    for second in range(FOLLOWED_EVERY_S, END_S + 1, FOLLOWED_EVERY_S):
        if second in LEAK_AT_S:
            engine.leak()
        if not PAUSE_S < second <= AFTER_PAUSE_S:
            engine.live_until(second)
        caught_up(http, engine.small)
        until(lambda now=second: _num_leaks_found(http) >= sum(at_s + LEAK_FOUND_S <= now for at_s in LEAK_AT_S))
        if second == EARLY_S:
            at["early"] = get(http, "/api/state")["seq"]
        if second == PAST_S:
            at["past"] = _arrival(engine, http, second)
        if second == AFTER_PAUSE_S // FOLLOWED_EVERY_S * FOLLOWED_EVERY_S:
            at["after a pause"] = _arrival(engine, http, AFTER_PAUSE_S)
    engine.wait_until(1000 * END_S)
    return at


def _num_leaks_found(http: TestClient) -> int:
    """What was found once is stored of the moment it was found at: that is to be soon, however fast this life is."""
    return len(backend_of(http).sources["engine"].live.leaks)


def _arrival(engine: Engine, http: TestClient, second: int) -> str:
    """The event that tells of an arrival at this very second, in the middle of what its step tells."""
    seq = engine.small.recorder.next_seq
    engine.step_at(second)
    caught_up(http, engine.small)
    assert backend_of(http).log.flush(60)
    told = get(http, "/api/events", **{"from": f"1.{seq}", "limit": 50})["events"]
    return next(event["seq"] for event in told if event["kind"] == "RequestArrived")


def truth_at(http: TestClient, early: str, events: list[Event], last: str) -> Recount:
    """From the keyframe of the early moment, event by event."""
    blocks = [get(http, f"/api/blocks/{block_id}", at=early, history=0) for block_id in range(1, NUM_BLOCKS)]
    requests = get(http, "/api/requests", at=early, limit=1000)["requests"]
    truth = Recount(blocks, requests, BLOCK_SIZE)
    for event in events:
        if seq_of(early) < seq_of(event["seq"]) <= seq_of(last):
            truth.happen(event)
    return truth


def all_events(http: TestClient) -> list[Event]:
    """Every event of the epoch, in order."""
    found: list[Event] = []
    page = get(http, "/api/events", **{"from": "1.0", "limit": 1000})
    while page["events"]:
        found += page["events"]
        page = get(http, "/api/events", **{"from": page["next"], "limit": 1000})
    return found


def seq_of(moment: str) -> int:
    return int(moment.partition(".")[2])
