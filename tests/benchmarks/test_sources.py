"""`kvxray bench sources` takes in all that its made-up engine publishes, and tells figures. How fast is not judged."""

from __future__ import annotations

import importlib
import json
import sys
import tempfile

import msgspec
import pytest
from kvxray_backend.sources.foreign.event_batches import decode_batch
from kvxray_backend.sources.foreign.offline import OfflineSession
from kvxray_backend.sources.foreign.token_chains import TokenChains
from kvxray_backend.sources.foreign.told import Cleared, Removed, Stored
from kvxray_storage.database import open_database
from kvxray_storage.event_log import EventLog

from benchmarks import sources
from benchmarks.measuring import foreign_engine
from benchmarks.measuring.foreign_engine import DIALECTS, ForeignEngine
from benchmarks.measuring.foreign_path import STAGES, ForeignPath, StageClock

FIGURES = {"batches_per_s", "blocks_per_s", "ratio_bare_decode"}
BLOCKS = 256


def payloads_of(dialect: str, number: int) -> tuple[ForeignEngine, list[bytes]]:
    engine = ForeignEngine(dialect, BLOCKS)
    return engine, [engine.payload() for _ in range(number)]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_is_understood_whole_and_counts_its_blocks(dialect, monkeypatch):
    monkeypatch.setattr(foreign_engine, "RESET_EVERY", 100)
    engine, payloads = payloads_of(dialect, 250)
    engine.check_integrity()
    chains = TokenChains(b"key")
    batches = [decode_batch(payload, chains) for payload in payloads]
    assert not any(batch.oddities for batch in batches)
    events = [event for batch in batches for event in batch.events]
    assert {type(event) for event in events} == {Stored, Removed, Cleared}
    assert sum(len(event.hashes) for event in events if not isinstance(event, Cleared)) == engine.blocks
    stores = [event for event in events if isinstance(event, Stored)]
    assert all(len(event.token_digests) == len(event.hashes) for event in stores)
    assert {len(one.hashes) for one in stores} >= {1, 2, 60}
    assert max(len(one.hashes) for one in stores) <= 64
    assert any(event.parent is not None and len(event.hashes) > 1 for event in stores), "prompts share prefixes"
    kind = dict if dialect.startswith("map") else list
    assert all(isinstance(one, kind) for one in msgspec.msgpack.decode(payloads[0])[1])


def test_what_the_engine_tells_is_free_of_contradictions(monkeypatch):
    monkeypatch.setattr(foreign_engine, "RESET_EVERY", 100)
    _, payloads = payloads_of("map_int", 250)
    session = OfflineSession(b"key", num_blocks=BLOCKS)
    for seq, payload in enumerate(payloads):
        session.feed("vllm", b"", seq, payload, seq * 10**7)
    session.finish()
    assert session.findings() == []


def test_all_of_it_comes_through_the_whole_path_and_every_stage_is_on_the_clock(tmp_path):
    database = open_database(f"sqlite:///{tmp_path / 'kvxray.db'}")
    _, payloads = payloads_of("array_bytes", 600)
    with EventLog(database) as log:
        path = ForeignPath(log)
        path.take(payloads[:300])
        path.take(payloads[300:])
        path.check_integrity(600)
        assert set(path.clock.seconds) == set(STAGES)
        assert all(seconds > 0 for seconds in path.clock.seconds.values())
        with pytest.raises(AssertionError, match="batches are missing"):
            path.check_integrity(601)
        path.close()
    database.close()


def test_a_stage_is_charged_without_the_stages_within_it(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("benchmarks.measuring.foreign_path.time.thread_time", lambda: now[0])
    clock = StageClock()

    def passes(seconds):
        now[0] += seconds

    fold = clock.timed("fold", passes)
    record = clock.timed("record", passes)

    def follows():
        passes(1.0)
        fold(2.0)
        record(4.0)
        fold(8.0)

    clock.timed("follow", follows)()
    assert (clock.seconds["follow"], clock.seconds["fold"], clock.seconds["record"]) == (1.0, 10.0, 4.0)
    clock.reset()
    assert not any(clock.seconds.values())


def test_the_ratio_is_taken_within_a_round():
    streams = [sources.Stream([b""] * 10, 100)] * 3
    rounds = sources.Rounds(streams, [2.0, 4.0, 1.0], [1.0, 1.0, 1.0], {"decode": 1.0, "fold": 3.0})
    found = rounds.figures()
    assert found["ratio_bare_decode"] == 0.5
    assert (found["batches_per_s"], found["blocks_per_s"]) == (5, 50)
    assert found["share_of_stage"] == {"decode": 0.25, "fold": 0.75}


def test_the_whole_run_tells_its_figures_and_leaves_nothing_behind(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    call = f"sources --json --batches 60 --rounds 2 --blocks {BLOCKS}"
    monkeypatch.setattr(sys, "argv", call.split())
    assert importlib.import_module("benchmarks.sources").main() == 0
    result = json.loads(capsys.readouterr().out)
    assert result.keys() >= FIGURES
    assert set(result["dialects"]) == set(DIALECTS)
    assert all(one[name] > 0 for one in result["dialects"].values() for name in FIGURES)
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_cannot_be_used_is_one_sentence(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["sources", "--database", "nonsense"])
    assert importlib.import_module("benchmarks.sources").main() == 2
    heard = capsys.readouterr()
    assert heard.out == ""
    assert heard.err.startswith("kvxray: ")
