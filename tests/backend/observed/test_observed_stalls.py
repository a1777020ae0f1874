"""A database that is slow, full or away does no harm to what is live, and what it misses is told."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from kvxray_backend.analysis.finding import Finding
from kvxray_backend.observed import rank_log
from kvxray_backend.observed.rank_log import QUEUE_FULL, RankLog
from kvxray_backend.sources.foreign.followed_source import FollowedSource
from kvxray_backend.sources.foreign.stream_records import EpochBegan, Kept
from kvxray_engine.clock import SystemClock
from kvxray_engine.stream.residency_descriptor import NOT_TOLD
from kvxray_storage import history
from kvxray_storage.database import Database
from kvxray_storage.event_log import EventLog
from kvxray_storage.records import EpochKey

from tests.backend.foreign.engine_rig import EngineRig
from tests.backend.observed.watching import kinds, num_cached, spec_of, stored_in, until, watching


def test_what_the_event_log_has_no_room_for_is_live_all_the_same_and_a_gap_of_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append = EventLog.append
    with stored_in(tmp_path) as (database, log):
        with EngineRig() as rig, watching(database, log, spec_of(rig)) as engine:
            rig.wait_for_subscriber()
            rig.publish(2)
            until(lambda: log.stats().stored_events == 4)
            monkeypatch.setattr(EventLog, "append", lambda *_: False)
            rig.publish(3)
            until(lambda: num_cached(engine) == 5)
            until(lambda: "storage" in [row.kind for row in history.findings(database, "e")])
            monkeypatch.setattr(EventLog, "append", append)
            rig.publish(2)
            until(lambda: num_cached(engine) == 7)
            until(lambda: kinds(engine) == [])
            assert engine.ranks["e"].followed.confidence == "exact"
        assert log.flush(10)
        (row,) = history.epochs(database, "e")
        gaps = history.gaps(database, row.key, 10)
        assert [(gap.wire_seq0, gap.wire_seq1, gap.reason) for gap in gaps] == [(2, 4, QUEUE_FULL)]


def test_a_database_that_cannot_be_asked_is_asked_again_and_nothing_is_lost_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_log, "ASK_AGAIN_S", 0.05)
    open_epoch, tries = EventLog.open_epoch, 0

    def refuse_twice(self: EventLog, *args: object, **more: object) -> EpochKey:
        nonlocal tries
        tries += 1
        if tries <= 2:
            raise sa.exc.OperationalError("SELECT", {}, Exception("the server is away"))
        return open_epoch(self, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(EventLog, "open_epoch", refuse_twice)
    with stored_in(tmp_path) as (database, log):
        with EngineRig() as rig, watching(database, log, spec_of(rig)) as engine:
            rig.wait_for_subscriber()
            rig.publish(4)
            until(lambda: num_cached(engine) == 4)
            until(lambda: tries == 3)
        assert log.flush(10)
        (row,) = history.epochs(database, "e")
        assert (row.num_events, history.gaps(database, row.key, 10)) == (8, [])


def test_what_waits_for_a_database_is_bounded_and_one_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_log, "MAX_WAITING_BYTES", 2_000)
    with stored_in(tmp_path) as (database, log):
        with EngineRig() as rig, watching(database, log, spec_of(rig)) as engine:
            rig.wait_for_subscriber()
            rig.publish(30)
            until(lambda: num_cached(engine) == 30)
            messages = list(engine.ranks["e"].tail._messages)
        waits = RankLog(log, SystemClock(), "slow", {})
        waits.put(EpochBegan(1, "life", NOT_TOLD))
        for message in messages:
            waits.put(Kept(message, is_late=False))
            waits.check_integrity()
        assert 0 < waits.num_lost < 30
        waits.flush()
        waits.check_integrity()
        assert waits.num_bytes == 0
        assert log.flush(10)
        (row,) = history.epochs(database, "slow")
        (gap,) = history.gaps(database, row.key, 10)
        assert gap.wire_seq1 - gap.wire_seq0 + 1 == waits.num_lost


def test_an_engine_is_followed_from_its_first_batch_on_though_the_database_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_log, "ASK_AGAIN_S", 0.05)
    reading = Database.reading

    def refuse(*_: object, **__: object) -> Any:
        raise sa.exc.OperationalError("SELECT", {}, Exception("the server is away"))

    with stored_in(tmp_path) as (database, log), EngineRig() as rig, watching(database, log, spec_of(rig)):
        rig.wait_for_subscriber()
        rig.publish(2)
        until(lambda: log.stats().stored_events == 4)
    with stored_in(tmp_path) as (database, log):
        with EngineRig() as rig, watching(database, log, spec_of(rig)) as engine:
            rig.wait_for_subscriber()
            monkeypatch.setattr(Database, "reading", refuse)
            rig.publish(5)
            until(lambda: num_cached(engine) == 5)
            assert engine.ranks["e"].epoch == 2
            monkeypatch.setattr(Database, "reading", reading)
            rig.publish(1)
            until(lambda: log.stats().stored_events == 4 + 12)
        assert [row.epoch for row in history.epochs(database, "e")] == [1, 2]


def test_who_reads_does_not_wait_for_the_long_look_at_all_that_is_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looking, looked = threading.Event(), threading.Event()

    def look(_: FollowedSource) -> list[Finding]:
        looking.set()
        assert looked.wait(60)
        return []

    with stored_in(tmp_path) as (database, log), EngineRig() as rig, watching(database, log, spec_of(rig)) as engine:
        rig.wait_for_subscriber()
        rig.publish(3)
        until(lambda: num_cached(engine) == 3)
        monkeypatch.setattr(FollowedSource, "state_findings", look)
        assert looking.wait(60)
        free = threading.Thread(target=lambda: num_cached(engine))
        free.start()
        free.join(10)
        was_free = not free.is_alive()
        looked.set()
        assert was_free
