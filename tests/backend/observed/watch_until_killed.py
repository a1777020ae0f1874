"""A process that watches an engine and stores what it tells until it is killed."""

from __future__ import annotations

import sys
import time

from kvxray_backend.observed.engine import ObservedEngine
from kvxray_backend.observed.spec import ObserveSpec
from kvxray_engine.clock import SystemClock
from kvxray_storage.database import open_database
from kvxray_storage.event_log import EventLog


def watch(url: str, events: str, replay: str) -> None:
    """Prints how many events are acknowledged, again and again."""
    database = open_database(url)
    log = EventLog(database, chunk_events=40, chunk_seconds=0.02)
    engine = ObservedEngine(
        ObserveSpec(name="e", events=events, replay=replay, store_semantics="copies"), database, log, SystemClock()
    )
    engine.start()
    while True:
        print(log.stats().stored_events, flush=True)
        time.sleep(0.01)


if __name__ == "__main__":
    watch(*sys.argv[1:])
