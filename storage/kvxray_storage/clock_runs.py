"""Where the engine's clock went back within an epoch: its chunks as runs, each in the order of its time.

Wall clocks are set back now and then, and nothing stored says where. All chunks of an epoch are looked at once for it,
later ones as they come.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import sqlalchemy as sa

from kvxray_storage import models
from kvxray_storage.epoch_directory import of_epoch
from kvxray_storage.records import EpochKey

MAX_EPOCHS: Final = 256
"""Remembered; of a run it takes a hundred bytes, and each has a chunk that takes more of the disk."""

MAX_RUNS: Final = 16
CROSSING_NS: Final = 1_000_000_000
_NEVER: Final = 2**62


@dataclass(frozen=True, slots=True)
class Run:
    """Chunks that begin from event `first` on, the first of them at `t0_ns`."""

    first: int
    t0_ns: int


@dataclass(slots=True)
class _Known:
    """What the chunks up to event `last` have; the next begins a run if it begins before `reached_ns`."""

    last: int = -1
    reached_ns: int = _NEVER
    runs: list[Run] = field(default_factory=list)


class ClockRuns:
    """Safe to call from any thread. What retention took away stays remembered; what comes late changes no run, since it
    happened between its neighbours.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[EpochKey, _Known] = {}

    def of(self, connection: sa.Connection, key: EpochKey) -> list[Run]:
        """In the order they happened; none where nothing is stored."""
        with self._lock:
            known = self._known.pop(key, None) or _Known()
            self._look_on(connection, key, known)
            self._known[key] = known
            if len(self._known) > MAX_EPOCHS:
                del self._known[next(iter(self._known))]
            return list(known.runs)

    def begun_by(
        self, connection: sa.Connection, key: EpochKey, t_ns: int, last_seq: int = _NEVER
    ) -> Iterator[tuple[int, int]]:
        """First and last event, up to `last_seq`, of each run that begins at or before a time, the newest run first."""
        end = _NEVER
        for run in reversed(self.of(connection, key)):
            # What came late may lie before all that the first one had.
            if run.first <= last_seq and (run.t0_ns <= t_ns or run.first == 0):
                yield run.first, min(end, last_seq)
            end = run.first - 1

    def is_lived_once(self, connection: sa.Connection, key: EpochKey, seq: int, t0_ns: int, t1_ns: int) -> bool:
        """Whether of these wall times nothing is stored but what is of the same run as event `seq`. False too where the
        clock was set back too often to say.
        """
        others = [(first, last) for first, last in self.begun_by(connection, key, t1_ns) if not first <= seq <= last]
        if len(others) > MAX_RUNS:
            return False
        ends = [end_of_run(connection, key, *run) for run in others]
        return all(end is None or end < t0_ns for end in ends)

    def _look_on(self, connection: sa.Connection, key: EpochKey, known: _Known) -> None:
        chunk = models.chunk
        new = (*of_epoch(chunk, key), chunk.c.num_events > 0, chunk.c.seq1 > known.last)
        newest: Any = connection.execute(
            sa.select(chunk.c.seq1, chunk.c.t0_ns, chunk.c.t1_ns).where(*new).order_by(chunk.c.seq1.desc()).limit(1)
        ).first()
        if newest is None:
            return
        # Not before the last one begins; nor, but for a step's results that cross the next one's begin, before it ends.
        reached = sa.case(
            (chunk.c.t1_ns - CROSSING_NS > chunk.c.t0_ns, chunk.c.t1_ns - CROSSING_NS), else_=chunk.c.t0_ns
        )
        before = sa.func.lag(reached, 1, known.reached_ns).over(order_by=chunk.c.seq1).label("before")
        seen = sa.select(chunk.c.seq0, chunk.c.t0_ns, before).where(*new, chunk.c.seq1 <= newest.seq1).subquery()
        went_back = sa.select(seen.c.seq0, seen.c.t0_ns).where(seen.c.t0_ns < seen.c.before).order_by(seen.c.seq0)
        for seq, t0_ns in connection.execute(went_back):
            known.runs.append(Run(seq if known.runs else 0, t0_ns))
        known.last, known.reached_ns = newest.seq1, max(newest.t0_ns, newest.t1_ns - CROSSING_NS)


def end_of_run(connection: sa.Connection, key: EpochKey, first: int, last: int) -> int | None:
    """When the last chunk ends that has events first..last; None where nothing is stored of them."""
    chunk = models.chunk
    query = sa.select(chunk.c.t1_ns).where(*of_epoch(chunk, key), chunk.c.seq1.between(first, last))
    found: int | None = connection.execute(query.order_by(chunk.c.seq1.desc()).limit(1)).scalar()
    return found
