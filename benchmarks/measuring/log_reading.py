"""How long it takes to look at any moment of a log. Run in a process of its own, so that nothing is left over from
whoever wrote it; the address of the database comes in KVXRAY_DATABASE_URL, figures go to standard output.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import sqlalchemy as sa
from kvxray_engine.stream.block_map import BlockMap
from kvxray_storage import history, models
from kvxray_storage.database import Database, open_database
from kvxray_storage.epoch_directory import of_epoch
from kvxray_storage.records import EpochKey
from kvxray_storage.request_history import request_history
from kvxray_storage.state_diff import diff
from kvxray_storage.travel_session import Traveller
from kvxray_storage.travel_steps import Unit

from benchmarks.measuring.figures import milliseconds

STEPS_EACH_WAY = 5
LIMIT = 100
"""Events of a block or a request that are asked for: as many as the page asks."""

COLD = {
    "sqlite": "a new process; for each moment the file dropped from the page cache, a new connection and session",
    "postgresql": "a new process; for each moment a new connection and session; the server's caches stay as they are",
}


class Times:
    """Seconds by the wall and of this thread."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []

    def note(self, work: Callable[[], object]) -> None:
        cpu, begun = time.thread_time(), time.perf_counter()
        work()
        self.wall.append(time.perf_counter() - begun)
        self.cpu.append(time.thread_time() - cpu)


class LogReading:
    """Looks at `moments` random moments of one epoch, the same in every run."""

    def __init__(self, database: Database, key: EpochKey, moments: int) -> None:
        self.database = database
        self.key = key
        self.random = Random(20)
        first, self.last, self.holders = self._range()
        self.moments = [self.random.randint(first, self.last) for _ in range(moments)]

    def look(self, seq: int, traveller: Traveller | None = None) -> BlockMap:
        with (traveller or Traveller(self.database)).reading(self.key, seq) as state:
            assert state.next_seq == seq + 1, f"asked for {seq}, got {state.next_seq - 1}"
            return state

    def states(self) -> Times:
        """Each with a session of its own, so that none helps another."""
        times = Times()
        for seq in self.moments:
            times.note(partial(self.look, seq))
        return times

    def states_cold(self) -> Times:
        times = Times()
        for seq in self.moments:
            self.database.close()
            if self.database.path is not None:
                drop_from_page_cache(self.database.path)
            times.note(partial(self.look, seq))
        return times

    def steps(self) -> tuple[Times, Times]:
        """From each moment some steps forward, and as many back: by event and by step of the engine in turns."""
        forward, back = Times(), Times()
        for seq in self.moments:
            traveller = Traveller(self.database)
            self.look(seq, traveller)
            for times, way in ((forward, 1), (back, -1)):
                for number in range(STEPS_EACH_WAY):
                    seq = self._step(times, traveller, seq, "step" if number % 2 else "event", way)
        return forward, back

    def diffs(self) -> tuple[Times, Times]:
        """Two random moments, found and compared; and the comparison alone."""
        whole, compared = Times(), Times()
        for seq, other in zip(self.moments, self.moments[1:] + self.moments[:1], strict=True):
            whole.note(partial(self._diff, seq, other, compared))
        return whole, compared

    def block_histories(self, num_blocks: int) -> Times:
        times = Times()
        for seq in self.moments:
            block = self.random.randrange(1, num_blocks)
            times.note(partial(history.block_history, self.database, self.key, block, LIMIT, last_seq=seq))
        return times

    def request_histories(self) -> Times:
        times = Times()
        for _ in self.moments:
            ordinal = self.random.randrange(self.holders)
            times.note(partial(request_history, self.database, self.key, ordinal, LIMIT))
        return times

    def _diff(self, seq: int, other: int, compared: Times) -> None:
        traveller = Traveller(self.database)
        before, after = (traveller.state_at(self.key, one) for one in (seq, other))
        compared.note(partial(diff, before, after))

    def _step(self, times: Times, traveller: Traveller, seq: int, by: Unit, way: int) -> int:
        found: list[int] = []

        def step() -> None:
            found.append(traveller.step(self.key, seq, by, way))
            self.look(found[0], traveller)

        times.note(step)
        return found[0]

    def _range(self) -> tuple[int, int, int]:
        """The first event that has a state, the last, and how many holders were named."""
        chunk, frame, name = models.chunk, models.keyframe, models.name
        with self.database.reading() as connection:
            last = connection.execute(sa.select(sa.func.max(chunk.c.seq1)).where(*of_epoch(chunk, self.key))).scalar()
            first = connection.execute(sa.select(sa.func.min(frame.c.seq)).where(*of_epoch(frame, self.key))).scalar()
            named = connection.execute(sa.select(sa.func.count()).where(*of_epoch(name, self.key))).scalar()
        return int(first or 0), int(last or 0), int(named or 1)


def drop_from_page_cache(path: Path) -> None:
    """The file and its log; nothing may be left to be written, so it is synced first."""
    for one in (path, path.with_name(path.name + "-wal")):
        if one.exists():
            file = os.open(one, os.O_RDONLY)
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(file)


def warm_figures(reading: LogReading) -> dict[str, Any]:
    num_blocks = reading.look(reading.last).num_blocks
    states = reading.states()
    forward, back = reading.steps()
    whole, compared = reading.diffs()
    blocks, requests = reading.block_histories(num_blocks), reading.request_histories()
    steps = Times()
    steps.wall, steps.cpu = forward.wall + back.wall, forward.cpu + back.cpu
    every = {
        "step": steps, "step_forward": forward, "step_back": back, "diff": whole, "diff_compare": compared,
        "block_history": blocks, "request_history": requests,
    }  # fmt: skip
    return {
        "state_at_p50_ms": milliseconds(states.wall, 50),
        "state_at_p95_ms": milliseconds(states.wall, 95),
        "state_at_max_ms": milliseconds(states.wall, 100),
        "state_at_p95_cpu_ms": milliseconds(states.cpu, 95),
        **{f"{name}_p50_ms": milliseconds(times.wall, 50) for name, times in every.items()},
        **{f"{name}_p95_ms": milliseconds(times.wall, 95) for name, times in every.items()},
        **{f"{name}_p95_cpu_ms": milliseconds(times.cpu, 95) for name, times in every.items()},
    }


def cold_figures(reading: LogReading) -> dict[str, Any]:
    before = bytes_from_disk()
    states = reading.states_cold()
    from_disk = (bytes_from_disk() - before) / len(states.wall) / 1e6
    return {
        "state_at_p50_cold_ms": milliseconds(states.wall, 50),
        "state_at_p95_cold_ms": milliseconds(states.wall, 95),
        "cold": COLD[reading.database.url_scheme],
        "cold_mb_from_disk": round(from_disk, 3),
    }


def bytes_from_disk() -> int:
    """What this process had to be read for from a disk."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["read_bytes"])


def main() -> int:
    source_id, epoch, moments, how = sys.argv[1:]
    database = open_database(os.environ["KVXRAY_DATABASE_URL"])
    reading = LogReading(database, EpochKey(int(source_id), int(epoch)), int(moments))
    print(json.dumps(cold_figures(reading) if how == "cold" else warm_figures(reading)))
    database.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
