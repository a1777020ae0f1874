"""Whether the event log keeps under its limit while events come in as fast as they are made, and whether everything
that retention leaves can still be told.

An engine that is made up tells rows of every kind; they are folded as they are made, and the states of some moments
kept. In the end those that retention left are read from the log and compared with them. Exit code 1: the log grew past
its limit, or a state differs.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa
from kvxray_backend.quantities import parse_size
from kvxray_engine.errors import UserError
from kvxray_engine.stream import snapshot
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.schema import ENDED_STATUSES
from kvxray_storage import models
from kvxray_storage.database import Database, open_database
from kvxray_storage.epoch_directory import of_epoch
from kvxray_storage.event_log import EventLog
from kvxray_storage.records import EpochKey
from kvxray_storage.retention import Limits
from kvxray_storage.retention_keeper import Retention, RetentionKeeper
from kvxray_storage.storage_size import measure
from kvxray_storage.time_travel import state_at
from numpy.typing import NDArray

from benchmarks.log import Progress
from benchmarks.measuring.generated_log import FLUSH_S, messages
from benchmarks.measuring.model_engine import ModelEngine

MOMENTS, MOMENTS_KEPT = 100, 20
"""How often a state is put by, and how many of the newest stay."""
LOOK_EVERY = 32
QUEUE_BYTES = 64 << 20
COLUMNS = ("ref", "hash_ordinal", "parent_ordinal", "slots", "group", "t_alloc", "t_last", "written", "state")


def main() -> int:
    parser = argparse.ArgumentParser(prog="kvxray bench retention", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object on standard output")
    parser.add_argument("--database", metavar="URL", help="sqlite:///PATH or postgresql://…; default: a temporary file")
    parser.add_argument("--rows", type=int, default=10_000_000, help="events to store")
    parser.add_argument("--limit", default="40MB", help="how large the log may become, or none")
    parser.add_argument("--blocks", type=int, default=4_096, help="blocks of the made-up engine")
    options = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="kvxray-bench-") as folder:
            database = open_database(options.database or f"sqlite:///{Path(folder) / 'kvxray.db'}")
            try:
                result = Run(database, parse_size(options.limit), ModelEngine(options.blocks)).all(options.rows)
            finally:
                database.close()
    except (UserError, ValueError) as error:
        print(f"kvxray: {error}", file=sys.stderr)
        return 2
    print(json.dumps(result) if options.json else "\n".join(f"{name}: {value}" for name, value in result.items()))
    limit = result["limit_bytes"]
    return int(limit is not None and result["largest_bytes"] > limit) or int(result["states_that_differ"] > 0)


@dataclass
class Run:
    """`largest`: bytes that were in use, or SQLite's file, at most. `moments`: the newest states that were put by.
    `queue_bytes`: what may wait to be stored, and so become one commit, for which a limit must have room.
    """

    database: Database
    limit: int | None
    engine: ModelEngine
    queue_bytes: int = QUEUE_BYTES
    largest: int = 0
    moments: deque[BlockMap] = field(default_factory=lambda: deque(maxlen=MOMENTS_KEPT))

    def all(self, rows: int) -> dict[str, Any]:
        with EventLog(self.database, max_queue_bytes=self.queue_bytes) as log:
            keeper = RetentionKeeper(
                self.database, log, Retention(Limits(max_bytes=self.limit), {}), self.engine.clock.wall_ns
            )
            keeper.start()
            try:
                begun = time.perf_counter()
                key = self._store(log, rows)
                seconds = time.perf_counter() - begun
            finally:
                keeper.close()
            stored, dropped = log.stats().stored_events, log.dropped
        self._look()
        return {
            "database": self.database.url_scheme, "rows": stored, "limit_bytes": self.limit,
            "largest_bytes": self.largest, "rows_per_s": round(stored / seconds), "waits_for_the_queue": dropped,
            **self._compared(key),
        }  # fmt: skip

    def _store(self, log: EventLog, rows: int) -> EpochKey:
        """Waits where the queue is full: nothing is lost."""
        engine, progress = self.engine, Progress("storing", rows)
        truth = BlockMap(engine.descriptor(), source="engine", incarnation=engine.incarnation)
        key = log.open_epoch("bench-retention", {}, engine.incarnation, engine.descriptor(), engine.clock.wall_ns())
        log.keyframe(key, 0, 0, engine.clock.wall_ns(), snapshot.dump(truth))
        put_by_at = 0
        for number, message in enumerate(messages(engine, rows)):
            while not log.append(key, message):
                assert log.flush(FLUSH_S), "the database takes no writes"
            truth.apply(message)
            if truth.next_seq >= put_by_at or truth.next_seq >= rows:
                self.moments.append(truth.copy())
                put_by_at = truth.next_seq + rows // MOMENTS
            if number % LOOK_EVERY == 0:
                self._look()
            progress.note(truth.next_seq)
        assert log.flush(FLUSH_S), "the database takes no writes"
        return key

    def _look(self) -> None:
        size, path = measure(self.database), self.database.path
        self.largest = max(self.largest, size.used if path is None else max(size.on_disk, path.stat().st_size))

    def _compared(self, key: EpochKey) -> dict[str, int]:
        epoch = models.epoch
        query = sa.select(epoch.c.pruned_seq, epoch.c.pruned_events, epoch.c.num_events)
        with self.database.reading() as connection:
            row = connection.execute(query.where(*of_epoch(epoch, key))).one()
        left = [one for one in self.moments if one.next_seq - 1 > (row.pruned_seq or -1)]
        differ = sum(not is_same(state_at(self.database, key, one.next_seq - 1), one) for one in left)
        return {
            "rows_pruned": row.pruned_events, "rows_left": row.num_events - row.pruned_events,
            "states_compared": len(left), "states_that_differ": differ,
        }  # fmt: skip


def is_same(found: BlockMap, expected: BlockMap) -> bool:
    columns = all((getattr(found, name) == getattr(expected, name)).all() for name in COLUMNS)
    holds = [one.tolist() for one in found.holds()] == [one.tolist() for one in expected.holds()]
    # Of those that are over, how many are remembered depends on how messages were joined.
    rows, others = (one.requests.rows for one in (found, expected))
    requests = living(rows) == living(others)
    return columns and holds and requests and found.t_ns == expected.t_ns


def living(rows: NDArray[Any]) -> list[Any]:
    found: list[Any] = rows[~np.isin(rows["status"], [int(status) for status in ENDED_STATUSES])].tolist()
    return found


if __name__ == "__main__":
    sys.exit(main())
