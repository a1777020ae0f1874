"""Whatever kvxray itself makes of a history is no fault: pruned, missed, imported, late, or still being written."""

from __future__ import annotations

import threading

import pytest
import sqlalchemy as sa
from kvxray_storage import epoch_fold, history, models, pruning
from kvxray_storage.database import open_database
from kvxray_storage.event_log import EventLog
from kvxray_storage.exchange.kvx_export import export_kvx
from kvxray_storage.exchange.stretch import Stretch
from kvxray_storage.retention import DAY_NS, Limits
from kvxray_storage.retention_keeper import Retention
from kvxray_storage.retention_plan import make_plan
from kvxray_storage.row_sums import summed
from kvxray_storage.verify import verify

from tests.storage.made_up_history import Lost
from tests.storage.test_retention import keeper_of, life
from tests.storage.test_storage_export import import_into
from tests.storage.told_messages import Teller, descriptor

WAIT_S = 60.0


@pytest.fixture(autouse=True)
def many_keyframes(monkeypatch):
    monkeypatch.setattr(epoch_fold, "KEYFRAME_ROWS", 1_000)


@pytest.fixture
def log(database):
    with EventLog(database, chunk_events=150) as opened:
        yield opened


def assert_whole(database):
    verdict = verify(database)
    assert [str(fault) for fault in verdict.faults] == []
    return verdict.checked


def test_what_was_pruned_is_not_missed(database, log):
    made = life(steps=50)
    key = made.store(log)
    keeper_of(database, log, Retention(Limits(max_age_s=1), {}), made.truth.t_ns + 10**9).look()
    checked = assert_whole(database)
    [row] = history.epochs(database, "engine")
    assert checked["event"] == row.num_events > 0
    with database.reading() as connection:
        assert connection.execute(sa.select(models.epoch.c.pruned_chunks)).scalar_one() > 0
    life(seed=2, steps=20).store(log, "life-2")
    keeper_of(database, log, Retention(Limits(max_age_s=1), {}), made.truth.t_ns + DAY_NS).look()
    assert_whole(database)
    with database.reading() as connection:
        left = sa.select(sa.func.count()).select_from(models.chunk).where(models.chunk.c.epoch == key.epoch)
        assert connection.execute(left).scalar_one() == 0


def test_nor_at_any_moment_while_it_is_pruned(database, log):
    made = life(steps=50)
    key = made.store(log)
    plan = make_plan(database, Limits(max_age_s=1), made.truth.t_ns + 10**9, log.followed())
    [cut] = plan.cuts
    log.errand(lambda connection: pruning.begin_at(connection, cut.edge, None)).result(WAIT_S)
    assert_whole(database)
    log.errand(lambda connection: pruning.delete_chunks(connection, cut.edge)).result(WAIT_S)
    assert_whole(database)
    log.errand(lambda connection: pruning.delete_postings(connection, cut.edge, 0, 3)).result(WAIT_S)
    log.errand(lambda connection: pruning.delete_names(connection, key, 0, 3, ())).result(WAIT_S)
    assert_whole(database)


def test_an_imported_stretch_is_whole(database, log, make_database_url, tmp_path):
    made = life(steps=50)
    key = made.store(log)
    [epoch] = history.epochs(database, "engine")
    middle = epoch.last_seq // 2
    export_kvx(database, [Stretch("engine", epoch, middle // 2, middle)], tmp_path / "middle.kvx", 1)
    assert key == epoch.key
    other = open_database(make_database_url())
    try:
        import_into(other, tmp_path / "middle.kvx", chunk_events=70)
        assert assert_whole(other)["rollup_1s"] > 0
    finally:
        other.close()


@pytest.mark.parametrize("back_s", [2, 3600])
def test_a_clock_that_went_back_is_no_fault(database, log, back_s):
    teller = Teller()
    key = log.open_epoch("engine", {}, "life-1", descriptor(), teller.t_ns)
    for step in range(20):
        if step == 10:
            teller.t_ns -= back_s * 10**9
        assert log.append(key, teller.tell_step(step, 1 + step))
        assert log.flush(WAIT_S)
    assert assert_whole(database)["chunk"] == 20


def test_what_came_late_into_a_gap_is_no_fault_before_or_after_it_was_folded(database, log):
    made = life(steps=50)
    key = made.store(log)
    [late] = [one.message for one in made.told if isinstance(one, Lost)]
    assert log.append(key, late)
    assert log.flush(WAIT_S)
    assert_whole(database)
    assert log.repair_gap(key, late.header.wire_seq, late.header.wire_seq, 5)
    assert log.flush(WAIT_S)
    assert_whole(database)


def test_a_log_that_is_written_meanwhile_is_whole_at_every_moment(database, log):
    made, done = life(steps=80), threading.Event()
    errors = []

    def write():
        try:
            made.store(log, flush_every=10)
        except BaseException as error:
            errors.append(error)
        finally:
            done.set()

    writer = threading.Thread(target=write)
    writer.start()
    looks = 0
    while not done.is_set() or looks < 2:
        assert_whole(database)
        looks += 1
    writer.join()
    assert errors == []
    assert assert_whole(database)["event"] > 0


def test_rows_that_an_older_kvxray_stored_are_said_not_to_be_checked(database, log):
    life(steps=10).store(log)
    with database.writing() as connection:
        connection.execute(sa.update(models.name).values(crc=None))
    verdict = verify(database)
    assert verdict.faults == []
    told = {what: count for what, count in verdict.not_checked.items() if count}
    assert told == {"rows of name that an older kvxray stored without a sum": verdict.checked["name"]}


def test_text_that_is_none_any_more_is_a_fault_of_its_row_and_the_rest_is_checked(sqlite_database):
    with EventLog(sqlite_database, chunk_events=150) as log:
        life(steps=10).store(log)
    name = models.name
    with sqlite_database.writing() as connection:
        broken = sa.literal_column("CAST(x'FF41' AS TEXT)")
        connection.execute(sa.update(name).where(name.c.ordinal == 2).values(id=broken))
    verdict = verify(sqlite_database)
    assert {(fault.table, fault.place) for fault in verdict.faults} == {("name", "ordinal 2")}
    with sqlite_database.reading() as connection:
        rows = connection.execute(sa.select(sa.func.count()).select_from(name)).scalar_one()
    assert verdict.checked["name"] == rows


def test_a_rollup_that_lacks_events_is_found_though_its_row_is_as_it_was_written(database, log):
    made = life(steps=50)
    made.store(log)
    table = models.rollup_1s
    with database.writing() as connection:
        row = dict(connection.execute(sa.select(table).order_by(table.c.t_s).limit(1)).mappings().one())
        row["allocations"] = 0
        connection.execute(sa.update(table).where(table.c.t_s == row["t_s"]).values(summed(table, row)))
    [fault] = verify(database).faults
    assert (fault.table, fault.place) == ("rollup_1s", f"t_s {row['t_s']}")
    assert fault.what == "allocations counts less than the events that are stored"
