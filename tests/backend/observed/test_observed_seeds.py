"""Engines whose hashes of the same prompts differ are told so, and what proves nothing is not compared."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
from kvxray_backend.observed.engine import ObservedEngine
from kvxray_backend.observed.spec import ObserveSpec
from kvxray_backend.observed.surroundings import Surroundings
from kvxray_engine.clock import SystemClock
from kvxray_storage import history

from tests.backend.foreign.engine_rig import EngineRig
from tests.backend.foreign.payloads import stored
from tests.backend.observed.watching import kinds, num_cached, stored_in, until


@pytest.mark.parametrize(
    ("tokens", "hashes", "is_told"),
    [
        (list(range(8)), (91, 92), True),
        (list(range(8)), (1, 2), False),
        ([0] * 8, (91, 92), False),
    ],
    ids=["other hashes", "the same hashes", "zeros of a recording"],
)
def test_two_engines_are_compared_by_the_hashes_of_the_same_tokens(
    tmp_path: Path, tokens: list[int], hashes: tuple[int, int], is_told: bool
) -> None:
    with ExitStack() as stack:
        database, log = stack.enter_context(stored_in(tmp_path))
        around = Surroundings(database, log, SystemClock())
        stack.callback(around.close)
        engines = []
        for name, told in (("a", (1, 2)), ("b", hashes)):
            rig = stack.enter_context(EngineRig())
            spec = ObserveSpec(name=name, events=rig.events)
            engine = ObservedEngine(spec, database, log, SystemClock(), around)
            engine.start()
            stack.callback(engine.close)
            rig.wait_for_subscriber()
            rig.publish(payloads=[msgspec.msgpack.encode([1.0, [stored(told, tokens=tokens)], 0])])
            engines.append(engine)
        until(lambda: all(num_cached(engine, engine.spec.name) == 2 for engine in engines))
        around.seeds.compare()
        assert bool(engines[0].seed_findings) == is_told
        if is_told:
            until(lambda: kinds(engines[0]) == ["hash_seed_mismatch"])
            until(lambda: [row.kind for row in history.findings(database, "a", "open")] == ["hash_seed_mismatch"])
            engines[1].close()
            around.seeds.compare()
            until(lambda: kinds(engines[0]) == [])
