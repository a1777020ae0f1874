"""Who hits a block by a hash that is gone is named, with the block and with whom it was given to; nobody else is."""

from __future__ import annotations

from pathlib import Path

import pytest
from kvxray_engine.faults.fault import Fault
from kvxray_engine.faults.faulty_pool import FaultyPool
from kvxray_engine.request import NewRequest
from kvxray_engine.step_batch import SamplingParams

from tests.faults.fault_run import done
from tests.faults.matrix import SEEDS
from tests.faults.watched_engine import WatchedEngine


class Returning(WatchedEngine):
    """Prompts that come again and again, and more of them than the pool has room for."""

    def _come_and_go(self) -> None:
        if len([*self.engine.scheduler.requests()]) < 4 and self._rng.random() < 0.3:
            self._num_requests += 1
            document = self._rng.randrange(14)
            prompt = [*range(1, 33), *range(1000 * document, 1000 * document + 64)]
            sampling = SamplingParams(max_tokens=4, ignore_eos=True)
            self.engine.add_request(NewRequest(f"request-{self._num_requests}", prompt, sampling))


@pytest.mark.parametrize("seed", SEEDS)
def test_who_reads_what_is_not_theirs_is_named_with_the_owner(seed: int, tmp_path: Path) -> None:
    """At a rate at which it happens again and again; both by the fault's own account. Not every hit can be told:
    documents that begin alike come to lie in each other's blocks.
    """
    with Returning(tmp_path, (Fault("stale-hash", 0.3, seed=seed),), seed) as world:
        world.work(60)
        world.finish()
        world.idle(10)
        pool, name_of = world.engine.pool, world.recorder.name_of
        assert isinstance(pool, FaultyPool)
        readers = {(name_of[deed.holder], deed.blocks[0]) for deed in pool.stale_hits}
        owners = set(done("block", world.dice_of("stale-hash").deeds, name_of))
        found = [one for one in world.desk.findings.values() if one.kind == "stale_hit"]
        fired = [alert for alert in world.desk.fired if alert.rule == "StaleHash"]
    told = {(one.subjects.requests[0], one.subjects.blocks[0]) for one in found}
    assert readers
    assert told <= readers
    assert len(told) >= 0.5 * len(readers)
    assert {(one.subjects.requests[1], one.subjects.blocks[0]) for one in found} <= owners
    assert all(len(one.subjects.hashes) == 1 and one.severity == "critical" for one in found)
    assert fired
