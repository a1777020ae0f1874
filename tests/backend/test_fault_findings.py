"""What kvxray finds of each fault on purpose is what docs/faults.md says it finds, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kvxray_backend.analysis.pins import IDLE_NS, LEAST_REQUESTS
from kvxray_engine.faults.fault import FAULTS, Fault
from kvxray_engine.faults.faulty_publisher import FaultyPublisher

from tests.backend.follower_rig import FollowerRig
from tests.backend.shifted_clock import ShiftedClock
from tests.backend.small_engine import SmallEngine

PAGE = (Path(__file__).parents[2] / "docs" / "faults.md").read_text()
ROWS = {cells[1].strip(" `"): cells for cells in (row.split("|") for row in PAGE.splitlines()) if len(cells) == 8}
RATES = {"leak-on-abort": 1.0, "lost-messages": 0.2, "reordered-messages": 0.3, "duplicated-messages": 0.3}
WHILE_HELD = {"ref-underflow": {"ref_mismatch"}}
"""Over with the request that was robbed, which may be before anybody looks."""
NEEDS_READERS = {"stale-hash": {"stale_hit"}}
"""Found where prompts come back, which they do in tests/faults/test_stale_hits.py and seldom here."""
HARMLESS = {"reordered-messages", "duplicated-messages"}


def documented(name: str) -> set[str]:
    return set(re.findall(r"`([a-z_]+)`", ROWS[name][6]))


def test_every_fault_is_documented_and_no_other() -> None:
    assert [name for name in ROWS if name not in ("fault", "---")] == list(FAULTS)


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_documented_with_its_usual_rate(name: str) -> None:
    assert ROWS[name][3].strip().endswith(f", {FAULTS[name].rate:g}")


@pytest.mark.parametrize("name", [name for name in FAULTS if name != "frozen-publisher"])
def test_a_fault_is_found_as_what_is_documented(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ShiftedClock()
    fault = Fault(name, RATES.get(name, 0.5))
    with SmallEngine(faults=(fault,), clock=clock) as engine, FollowerRig(tmp_path, engine, clock=clock) as rig:
        # Their laws are to be broken.
        monkeypatch.setattr(engine.engine, "check_integrity", lambda: None)
        monkeypatch.setattr(rig.follower, "check_integrity", lambda: None)
        rig.pump_until(lambda: rig.live.connection == "connected")
        for _ in range(8):
            engine.work(12)
            rig.pump()
        engine.add("last", prompt=100, output=50)
        engine.step(3)
        engine.abort("last")
        engine.finish()
        rig.pump_until_caught_up(hurry_s=0.05)
        rig.let_time_pass(15)
        if name == "stuck-pin":  # who tells whether a pin is used are those who come
            rig.let_time_pass(IDLE_NS / 1e9)
            engine.work(5 * LEAST_REQUESTS)
            engine.finish()
            rig.pump_until_caught_up(hurry_s=0.05)

        def found() -> set[str]:
            kinds = {finding.kind for finding in (*rig.changes, *rig.live.findings)}
            # Silence is what leaps of the test's clock look like.
            return kinds - {"stale"} - WHILE_HELD.get(name, set()) - NEEDS_READERS.get(name, set())

        expected = documented(name) - NEEDS_READERS.get(name, set())
        rig.pump_until(lambda: expected <= found())
        rig.let_time_pass(1)
        rig.pump()
        assert found() == expected
        if name in HARMLESS:
            assert isinstance(engine.publisher, FaultyPublisher)
            dice = engine.publisher.reorders or engine.publisher.repeats
            assert dice is not None
            assert dice.happened > 5
            engine.assert_folded(rig.block_map)


def test_a_frozen_publisher_is_found_as_silence_and_nothing_is_lost(tmp_path: Path) -> None:
    with (
        SmallEngine(faults=(Fault("frozen-publisher", 1.0, after=20),)) as engine,
        FollowerRig(tmp_path, engine) as rig,
    ):
        assert isinstance(engine.publisher, FaultyPublisher)
        engine.publisher.frozen_s = 4.5
        engine.work(20)
        rig.pump_until_caught_up()
        assert not rig.open_kinds()
        engine.work(1)
        rig.pump_until(lambda: rig.open_kinds() == documented("frozen-publisher"))
        rig.pump_until_caught_up()
        rig.pump_until(lambda: not rig.open_kinds())
        engine.assert_folded(rig.block_map)
