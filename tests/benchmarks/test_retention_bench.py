"""`kvxray bench retention` stores under a limit, and finds out whether what is left is true."""

from __future__ import annotations

import importlib
import json

from kvxray_engine.stream.block_map import BlockMap
from kvxray_storage import epoch_fold
from kvxray_storage.database import open_database
from kvxray_storage.storage_size import measure

from benchmarks.measuring.model_engine import ModelEngine
from benchmarks.retention import Run, is_same


def test_it_prunes_stays_under_the_limit_and_compares_what_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr(epoch_fold, "KEYFRAME_ROWS", 4_000)
    database = open_database(f"sqlite:///{tmp_path / 'kvxray.db'}")
    limit = measure(database).used * 3 // 2 + 300_000
    # One commit of all that can wait, beside the stretch that must stay, is far less than the limit: how the threads
    # take turns decides nothing.
    told = Run(database, limit, ModelEngine(256, rows=128), queue_bytes=256 << 10).all(60_000)
    database.close()
    assert told["rows"] == told["rows_pruned"] + told["rows_left"] >= 60_000
    assert told["rows_pruned"] > 0
    assert 0 < told["largest_bytes"] <= limit == told["limit_bytes"]
    assert told["states_compared"] > 0
    assert told["states_that_differ"] == 0


def test_its_exit_code_says_whether_the_limit_was_kept_and_the_states_were_the_same(capsys, monkeypatch):
    module = importlib.import_module("benchmarks.retention")
    monkeypatch.setattr("sys.argv", ["retention", "--json", "--rows", "3000", "--blocks", "256", "--limit", "32MB"])
    assert module.main() == 0
    assert json.loads(capsys.readouterr().out)["states_compared"] > 0
    monkeypatch.setattr(module, "is_same", lambda found, expected: False)
    assert module.main() == 1
    capsys.readouterr()
    monkeypatch.setattr("sys.argv", ["retention", "--limit", "much"])
    assert module.main() == 2
    assert "is not a size" in capsys.readouterr().err


def test_a_state_that_differs_in_one_block_is_not_the_same():
    engine = ModelEngine(64, rows=32)
    one = BlockMap(engine.descriptor())
    for _ in range(5):
        one.apply(engine.step())
    other = one.copy()
    assert is_same(one, other)
    other.slots[7] += 1
    assert not is_same(one, other)
