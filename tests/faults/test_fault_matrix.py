"""Every fault is caught by the right rule, in time, with the right owner; nothing else fires; what heals is healed."""

from __future__ import annotations

import pytest
from kvxray_engine.faults.fault import FAULTS

from tests.faults import times
from tests.faults.fault_run import FaultRun, run
from tests.faults.matrix import MATRIX, SEEDS

HEALED = [name for name, expected in MATRIX.items() if not expected.rule]
CAUGHT = [name for name in MATRIX if name not in HEALED]
TIMES = times.read()


def test_the_matrix_has_every_fault() -> None:
    assert list(MATRIX) == list(FAULTS)


def test_the_page_tells_what_was_measured() -> None:
    assert "\n".join(times.table(TIMES)) in times.PAGE.read_text()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", CAUGHT)
def test_a_fault_is_caught_by_the_right_rule_with_the_right_owner_in_time(name: str, seed: int) -> None:
    ran = run(name, seed)
    assert ran.happened
    first = first_alert(ran)
    assert ran.detected_s is not None
    assert 0 <= ran.detected_s <= ran.expected.within_s
    assert ran.told_by(first), "the alert names nobody"
    assert ran.told_by(first) <= ran.told == ran.did
    assert other_rules(ran) <= set(ran.expected.also)
    assert ran.detected_s == pytest.approx(TIMES[name][SEEDS.index(seed)], abs=0.2), "run python -m tests.faults"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", HEALED)
def test_a_fault_that_is_healed_loses_nothing_and_wakes_nobody(name: str, seed: int) -> None:
    """`run` has compared what was folded with the engine's own state."""
    ran = run(name, seed)
    assert ran.happened > 5
    assert ran.findings == []
    assert ran.fired == []


def first_alert(ran: FaultRun) -> object:
    theirs = [alert for alert in ran.fired if alert.rule == ran.expected.rule]
    assert theirs, f"{ran.expected.rule} did not fire; found was {sorted({one.kind for one in ran.findings})}"
    return theirs[0]


def other_rules(ran: FaultRun) -> set[str]:
    return {alert.rule for alert in ran.fired} - {ran.expected.rule}
