"""kill -9 of a kvxray that watches an engine, at any moment: what is stored in the end comes to what the engine told,
counted again in plain Python from the batches.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
from kvxray_engine.stream.schema import Kind
from kvxray_storage import history
from kvxray_storage.database import Database, open_database
from kvxray_storage.residency_travel import residency_at
from kvxray_storage.rollups import rollups
from kvxray_storage.verify import verify

from tests.backend.foreign.engine_rig import EngineRig

KILLS = 4
BATCHES_A_LIFE = 120
BEGAN_S = 1_700_000_000


@dataclass
class Recount:
    """What an engine told. By second of its clock: hashes stored, hashes removed, copies after each batch."""

    rng: random.Random
    now: float = BEGAN_S
    num_hashes: int = 0
    copies: Counter[int] = field(default_factory=Counter)
    stored: Counter[int] = field(default_factory=Counter)
    removed: Counter[int] = field(default_factory=Counter)
    cached: dict[int, list[int]] = field(default_factory=dict)
    num_batches: int = 0

    @property
    def num_events(self) -> int:
        return self.num_batches + self.stored.total() + self.removed.total()

    def payload(self) -> bytes:
        """The next batch: a few events about new hashes and old ones."""
        self.now += self.rng.choice([0.001, 0.03, 0.2])
        self.num_batches += 1
        told = [self._removal() if self.copies and self.rng.random() < 0.4 else self._store() for _ in range(3)]
        self.cached.setdefault(int(self.now), []).append(self.copies.total())
        return msgspec.msgpack.encode([self.now, told, 0])

    def _store(self) -> dict[str, object]:
        again = self.copies and self.rng.random() < 0.2
        fresh = range(self.num_hashes + 1, self.num_hashes + 1 + self.rng.randrange(1, 6))
        hashes = [self.rng.choice(sorted(self.copies))] if again else [*fresh]
        self.num_hashes = max(self.num_hashes, *hashes)
        self.copies.update(hashes)
        self.stored[int(self.now)] += len(hashes)
        return {
            "type": "BlockStored", "block_hashes": hashes, "parent_block_hash": None,
            "token_ids": [1] * (4 * len(hashes)), "block_size": 4, "medium": "GPU",
        }  # fmt: skip

    def _removal(self) -> dict[str, object]:
        present = sorted(self.copies)
        hashes = self.rng.sample(present, min(len(present), self.rng.randrange(1, 4)))
        self.copies.subtract(hashes)
        self.copies += Counter()
        self.removed[int(self.now)] += len(hashes)
        return {"type": "BlockRemoved", "block_hashes": hashes, "medium": "GPU"}


@contextmanager
def watched_by_a_process(url: str, rig: EngineRig) -> Iterator[subprocess.Popen[str]]:
    """Killed in the end, wherever it is."""
    command = [sys.executable, "-m", "tests.backend.observed.watch_until_killed", url, rig.events, rig.replay]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for_events(process: subprocess.Popen[str], num_events: int) -> int:
    """Until so many are acknowledged; how many it is then."""
    assert process.stdout is not None
    for line in process.stdout:
        if int(line) >= num_events:
            return int(line)
    raise AssertionError("the process ended by itself")


def test_killed_at_any_moment_the_history_is_what_the_engine_told(tmp_path: Path) -> None:
    url, rng = f"sqlite:///{tmp_path / 'kvxray.db'}", random.Random(7)
    told = Recount(rng)
    with EngineRig() as rig:
        for kill in range(KILLS):
            with watched_by_a_process(url, rig) as process:
                rig.wait_for_subscriber()
                acknowledged = wait_for_events(process, 0)
                for _ in range(BATCHES_A_LIFE):
                    rig.publish(payloads=[told.payload()])
                    if rng.random() < 0.05:
                        acknowledged = wait_for_events(process, acknowledged + 1)
                is_last = kill + 1 == KILLS
                wait_for_events(process, told.num_events if is_last else acknowledged + rng.randrange(1, 9))
            rig.publish(payloads=[told.payload() for _ in range(0 if is_last else 7)])
    database = open_database(url)
    try:
        check_stored(database, told)
    finally:
        database.close()


def check_stored(database: Database, told: Recount) -> None:
    epochs = history.epochs(database, "e")
    assert len([row for row in epochs if row.num_events]) == KILLS
    assert [gap for row in epochs for gap in history.gaps(database, row.key, 100) if gap.repaired_ns is None] == []
    kinds = Counter(event.kind for row in epochs for event in history.events(database, row.key, 0, 100_000))
    assert kinds[Kind.StepStarted] == told.num_batches
    assert (kinds[Kind.ResidencyStored], kinds[Kind.ResidencyRemoved]) == (told.stored.total(), told.removed.total())
    last = epochs[-1]
    assert last.last_seq is not None
    state = residency_at(database, last.key, last.last_seq)
    state.check_integrity(with_hashes=False)
    assert state.known
    (place,) = state.places()
    ordinals = state.residents(place)
    found = {
        int.from_bytes(state.hash_bytes(ordinal) or b"", "big"): num
        for ordinal, num in zip(ordinals.tolist(), state.copies(ordinals, place).tolist(), strict=True)
    }
    assert found == dict(told.copies)
    check_rollups(database, told)
    assert verify(database).faults == []


def check_rollups(database: Database, told: Recount) -> None:
    names = ("blocks_cached", "evictions_other", "cached_last")
    rows = rollups(database, "e", 0, 1 << 62, 1, names)
    sums: defaultdict[str, Counter[int]] = defaultdict(Counter)
    cached: dict[int, float] = {}
    for at, second in enumerate(rows["t_s"].tolist()):
        for name in names[:2]:
            sums[name][second] += int(rows[name][at])
        if not np.isnan(rows["cached_last"][at]):
            cached[second] = rows["cached_last"][at]
    assert +sums["blocks_cached"] == +told.stored
    assert +sums["evictions_other"] == +told.removed
    # Read where a chunk ends, which need not be where the second does.
    assert cached.keys() == told.cached.keys()
    assert all(cached[second] in after for second, after in told.cached.items())
    assert cached[int(told.now)] == told.copies.total()
