"""The gaps of a stretch of time are those of that stretch, however many came before and after."""

from __future__ import annotations

import pytest
from kvxray_storage.event_log import EventLog
from kvxray_storage.gap_history import gaps_between

from tests.storage.told_messages import T0_NS, descriptor

S = 1_000_000_000


@pytest.fixture
def lossy(database):
    """Two epochs of a source, 30 gaps each, one a second; and one of another source in between."""
    with EventLog(database) as log:
        other = log.open_epoch("other", {}, "other", descriptor(), T0_NS)
        assert log.gap(other, 5, 5, 50, 59, T0_NS + 10 * S, "not asked for")
        for epoch in range(2):
            key = log.open_epoch("engine", {}, f"life-{epoch}", descriptor(), T0_NS)
            for at in range(30):
                t_ns = T0_NS + (epoch * 30 + at) * S
                assert log.gap(key, 2 * at, 2 * at, 20 * at, 20 * at + 9, t_ns, f"gap {epoch}.{at}")
        assert log.flush(60.0)
    return database


def reasons(found):
    return [row.reason for _, row in found]


def test_a_stretch_has_its_own_gaps_newest_first(lossy):
    num, found = gaps_between(lossy, "engine", T0_NS + 2 * S, T0_NS + 4 * S, 5)
    assert (num, reasons(found)) == (3, ["gap 0.4", "gap 0.3", "gap 0.2"])
    num, found = gaps_between(lossy, "engine", T0_NS + 29 * S, T0_NS + 30 * S, 5)
    assert [(epoch, row.seq0) for epoch, row in found] == [(2, 0), (1, 580)]
    assert gaps_between(lossy, "engine", T0_NS + 100 * S, T0_NS + 200 * S, 5) == (0, [])
    assert gaps_between(lossy, "nobody", 0, 2**62, 5) == (0, [])


def test_more_than_wanted_are_counted(lossy):
    num, found = gaps_between(lossy, "engine", 0, 2**62, 4)
    assert (num, reasons(found)) == (60, ["gap 1.29", "gap 1.28", "gap 1.27", "gap 1.26"])
    assert gaps_between(lossy, "engine", T0_NS, T0_NS + 3 * S, 4)[0] == 4
