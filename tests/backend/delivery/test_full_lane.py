"""More waits than a lane holds: what was left to the database comes from there, whenever it was stored."""

from __future__ import annotations

import pytest
from kvxray_backend.delivery import lane as lane_module
from kvxray_backend.delivery import lanes as lanes_module
from kvxray_backend.delivery.lanes import Lanes
from kvxray_backend.delivery.notice import Notice, rows_for
from kvxray_backend.delivery.outcome import Accepted
from kvxray_backend.delivery.target import Target

from tests.backend.delivery.sent_alerts import SECOND_NS, made_alert

PAGER = Target("pager", "webhook", "http://pager")
NOW_NS = 1_800_000_000 * SECOND_NS


def due(number):
    alert = made_alert(f"alert-{number}")
    return Notice(rows_for([PAGER], alert, "fired", NOW_NS)[0], alert)


def take(lanes, notice):
    lanes.take(notice.alert, "fired", [notice.row], NOW_NS)


def tell_all(lanes):
    now_ns, told = NOW_NS + 60 * SECOND_NS, []
    while notices := lanes.begin("pager", now_ns, lambda alert: False):
        told += [notice.row.alert_id for notice in notices]
        lanes.settle("pager", Accepted(), now_ns)
    return told


@pytest.fixture
def full(monkeypatch):
    """Two wait, the third is left to the database."""
    monkeypatch.setattr(lane_module, "MAX_WAITING", 2)
    monkeypatch.setattr(lanes_module, "MAX_WAITING", 4)
    lanes = Lanes([PAGER])
    notices = [due(number) for number in range(3)]
    for notice in notices:
        take(lanes, notice)
    lanes.stored([notice.row for notice in notices])
    assert tell_all(lanes) == ["alert-0", "alert-1"]
    assert lanes.wants_stored("pager")
    return lanes, notices[2]


def read(lanes, notices):
    lanes.put_stored("pager", notices, has_more=False)


def test_what_comes_while_it_is_read_is_read_the_next_time(full):
    lanes, third = full
    lanes.begin_reading("pager")
    late = due(3)
    take(lanes, late)
    lanes.stored([late.row])
    read(lanes, [third])
    assert tell_all(lanes) == ["alert-2"]
    assert lanes.wants_stored("pager"), "alert-3 is in the database alone"
    lanes.begin_reading("pager")
    read(lanes, [late])
    assert tell_all(lanes) == ["alert-3"]
    assert not lanes.wants_stored("pager")


def test_what_came_before_it_is_read_and_is_stored_after_it_is_read_once_more(full):
    lanes, third = full
    late = due(3)
    take(lanes, late)
    lanes.begin_reading("pager")
    read(lanes, [third])
    lanes.begin_reading("pager")
    lanes.stored([late.row])
    read(lanes, [])
    assert lanes.wants_stored("pager"), "it may have been stored just after that"
    lanes.begin_reading("pager")
    read(lanes, [late])
    assert tell_all(lanes) == ["alert-2", "alert-3"]
    assert not lanes.wants_stored("pager")


def test_what_was_told_and_could_not_be_stored_as_told_is_not_told_again(full):
    lanes, third = full
    told = Notice(next(row for row in lanes.unsaved("pager") if row.alert_id == "alert-1"), due(1).alert)
    assert not told.row.waits
    lanes.begin_reading("pager")
    read(lanes, [due(1), third])
    assert tell_all(lanes) == ["alert-2"]
