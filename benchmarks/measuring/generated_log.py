"""An event log of generated rows of all kinds: what the benchmarks of storage and time travel read."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kvxray_engine.stream import snapshot
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.codec import Message
from kvxray_storage.event_log import EventLog
from kvxray_storage.records import EpochKey

from benchmarks.measuring.model_engine import ModelEngine

FLUSH_S = 120.0


def messages(engine: ModelEngine, rows: int) -> Iterator[Message]:
    """The engine's next messages, with `rows` events or a few more."""
    told = 0
    while told < rows:
        message = engine.step()
        told += message.header.n
        yield message


def store(
    log: EventLog, engine: ModelEngine, rows: int, progress: Callable[[int], None] | None = None
) -> tuple[EpochKey, int]:
    """Lets the engine live for so many rows, followed from its first one; its epoch, and the number of its last event.

    Waits where the log's queue is full: nothing is lost.
    """
    began = BlockMap(engine.descriptor(), source="engine", incarnation=engine.incarnation)
    key = log.open_epoch("engine", {}, engine.incarnation, engine.descriptor(), engine.clock.wall_ns())
    log.keyframe(key, 0, 0, engine.clock.wall_ns(), snapshot.dump(began))
    last = -1
    for message in messages(engine, rows):
        while not log.append(key, message):
            assert log.flush(FLUSH_S), "the database takes no writes"
        last = message.header.seq0 + message.header.n - 1
        if progress is not None:
            progress(last + 1)
    assert log.flush(FLUSH_S), "the database takes no writes"
    return key, last
