"""Sources that are stored and that nobody follows, earlier or imported ones: what they are is their last moment."""

from __future__ import annotations

from kvxray_storage import history
from kvxray_storage.chunk import DamagedChunk
from kvxray_storage.database import Database
from kvxray_storage.time_travel import NotStored

from kvxray_backend.live_state import LiveState
from kvxray_backend.moments import Moment, Point
from kvxray_backend.past import PastStates, span_of


def stored_names(database: Database) -> list[str]:
    """Those that tell of blocks, in the order in which they were first followed."""
    return [row.name for row in history.sources(database) if not tells_hashes(database, row.name)]


def stored_hash_sources(database: Database) -> list[str]:
    """Those that tell of hashes."""
    return [row.name for row in history.sources(database) if tells_hashes(database, row.name)]


def tells_hashes(database: Database, source: str) -> bool:
    """Whether what is stored of it, if anything, are hashes and no blocks. What cannot be read tells of blocks: whoever
    reads those says what is wrong with it.
    """
    try:
        epochs = history.epochs(database, source)
    except DamagedChunk:
        return False
    return bool(epochs) and bool(epochs[-1].descriptor.block_sizes)


def last_state(database: Database, past: PastStates, source: str) -> LiveState:
    """The last moment that can be told; where none can, a state that says so much."""
    for row in reversed(history.epochs(database, source)):
        if row.last_seq is None:
            continue
        try:
            return past.at(source, Moment(point=Point(row.epoch, row.last_seq)))
        except (NotStored, DamagedChunk):
            continue
    state = LiveState(source)
    state.connect("past", 0)
    state.absence = past.why_no_state(source)
    state.epochs = tuple(span_of(row) for row in history.epochs(database, source))
    return state
