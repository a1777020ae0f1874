"""Going back inside a chunk: what is folded again is a stretch at most, and the moments are what they were."""

from __future__ import annotations

import random

import pytest
from kvxray_engine.stream.block_map import BlockMap
from kvxray_storage import travel_cursor
from kvxray_storage.event_log import EventLog
from kvxray_storage.time_travel import state_at
from kvxray_storage.travel_session import Traveller

from benchmarks.measuring.model_engine import ModelEngine
from tests.storage.made_up_history import MadeUpHistory
from tests.storage.test_travel_session import digest

STRETCH = 64


@pytest.fixture
def life(sqlite_database, monkeypatch):
    """Chunks of up to 1,000 events, with messages missing and the blocks made anew on the way."""
    monkeypatch.setattr(travel_cursor, "STRETCH", STRETCH)
    monkeypatch.setattr(travel_cursor, "SHORT_WAY", 2 * STRETCH)
    made = MadeUpHistory(ModelEngine(96, rows=48, seed=13, seldom=1.5))
    made.snapshot()
    made.steps(40)
    made.steps(1, lost=True)
    made.steps(40)
    with EventLog(sqlite_database, chunk_events=1000, chunk_seconds=600.0) as log:
        key = made.store(log)
    return key, made.told[0].state.next_seq, made.engine.recorder.next_seq - 1


def test_moments_are_the_same_however_one_moves_between_stretches(sqlite_database, life):
    key, first, last = life
    traveller, choose = Traveller(sqlite_database), random.Random(4)
    seq = last
    for _ in range(250):
        seq = min(max(seq + choose.choice((-300, -65, -64, -9, -1, -1, 1, 8, 63, 64, 65, 200)), first), last)
        with traveller.reading(key, seq) as state:
            assert digest(state) == digest(state_at(sqlite_database, key, seq)), f"moment {seq}"
        traveller.check_integrity()


def test_a_step_back_folds_a_stretch_at_most(sqlite_database, life, monkeypatch):
    key, _, last = life
    traveller, folded = Traveller(sqlite_database), []
    with traveller.reading(key, last):
        pass
    apply = BlockMap.apply

    def note(state, message):
        folded.append(message.header.n)
        return apply(state, message)

    monkeypatch.setattr(BlockMap, "apply", note)
    for seq in range(last - 1, last - 2 * STRETCH, -1):
        with traveller.reading(key, seq) as state:
            assert state.next_seq == seq + 1
        assert sum(folded) < STRETCH, f"moment {seq}"
        folded.clear()
