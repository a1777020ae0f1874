"""`kvxray bench log` stores what it says and looks at what was asked for. How long that takes is not judged here."""

from __future__ import annotations

import importlib
import json
import tempfile
from itertools import islice
from pathlib import Path
from random import Random

import numpy as np
import pytest
import sqlalchemy as sa
from kvxray_engine.stream.block_map import BLOCK_COLUMNS, BlockMap
from kvxray_engine.stream.codec import decode, decode_descriptor
from kvxray_engine.stream.schema import NO_ORDINAL, Kind
from kvxray_storage import history
from kvxray_storage.database import open_database
from kvxray_storage.event_log import EventLog
from kvxray_storage.time_travel import state_at

from benchmarks.measuring import message_file
from benchmarks.measuring.figures import milliseconds, percentile
from benchmarks.measuring.log_ingest import Ingest, Slice
from benchmarks.measuring.log_reading import LogReading, drop_from_page_cache
from benchmarks.measuring.message_stream import received
from benchmarks.measuring.row_inserts import TABLE, RowInserts

ROWS, BLOCKS, PER_MESSAGE = 12_000, 512, 32
NAMED = {
    "database", "rows", "blocks", "ingest_rows_per_s_512", "ingest_rows_per_s_64", "ratio_driver_tuples",
    "ratio_core_dicts", "bytes_per_row", "state_at_p50_ms", "state_at_p95_ms", "state_at_p95_cold_ms", "step_p95_ms",
    "diff_p95_ms", "block_history_p95_ms", "request_history_p95_ms", "backend_rss_mb", "queue_peak_mb",
}  # fmt: skip


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return message_file.write(tmp_path_factory.mktemp("messages") / "messages", ROWS, PER_MESSAGE, BLOCKS)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'kvxray.db'}"
    return request.getfixturevalue("postgres_url")


@pytest.fixture
def database(url):
    opened = open_database(url)
    yield opened
    opened.close()


@pytest.fixture
def stored(database, file):
    """The key of the epoch that holds the whole file, and its slices."""
    with EventLog(database) as log, received(file) as payloads:
        ingest = Ingest(log, "engine", file, payloads)
        slices = [ingest.take(-(-file.rows // 3)) for _ in range(3)]
        assert ingest.rows == file.rows
        assert ingest.queue_peak > 0
    return ingest.key, slices


def told(file):
    """The messages, without the heartbeat."""
    payloads = file.payloads()
    next(payloads)
    return [decode(payload) for payload in payloads]


def folded(file, messages):
    state = BlockMap(decode_descriptor(file.began().header.descriptor))
    for message in messages:
        state.apply(message)
    return state


def test_a_file_holds_messages_of_about_the_size_asked_for_and_of_every_kind(file):
    messages = told(file)
    assert [message.header.wire_seq for message in messages] == list(range(file.num_messages))
    assert sum(message.header.n for message in messages) == file.rows >= ROWS
    assert PER_MESSAGE / 1.5 < file.rows_per_message < PER_MESSAGE * 1.5
    kinds = {Kind(kind) for message in messages for kind in message.columns.kind.tolist()}
    assert kinds >= {
        Kind.BlockAllocated, Kind.BlockCached, Kind.BlockEvicted, Kind.BlockReferenced, Kind.BlockDereferenced,
        Kind.BlockFreed, Kind.BlockFilled, Kind.BlockCopied, Kind.BlockMoved, Kind.RequestPreempted,
        Kind.RequestResumed, Kind.LeaseChanged, Kind.TokensGenerated,
    }  # fmt: skip


def test_two_files_are_two_lives(tmp_path):
    made = [message_file.write(tmp_path / name, 500, 64, 64) for name in ("one", "other")]
    assert made[0].incarnation != made[1].incarnation


def test_not_all_that_is_sent_need_be_taken(file):
    for count in (0, 1, file.num_messages // 2):
        with received(file) as payloads:
            taken = [decode(payload).header.wire_seq for payload in islice(payloads, count)]
        assert taken == list(range(count))


def test_what_was_taken_in_is_stored_as_it_was_told(database, file, stored):
    key, slices = stored
    assert sum(one.rows for one in slices) == file.rows
    assert all(one.wall_s > 0 for one in slices)
    expected, found = folded(file, told(file)), state_at(database, key, file.rows - 1)
    for name in BLOCK_COLUMNS:
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    for mine, theirs in zip(found.holds(), expected.holds(), strict=True):
        assert np.array_equal(mine, theirs)


def test_the_rows_inserted_beside_it_are_the_same_events(database, file, stored):
    key, _ = stored
    inserts = RowInserts(database, database, key, 6000)
    events = history.events(database, key, 0, 6000)
    for insert, expected in ((inserts.tuples, events), (inserts.dicts, events[:3000])):
        assert insert() > 0
        with database.reading() as connection:
            rows = connection.execute(sa.select(TABLE).order_by(TABLE.c.seq)).all()
        assert [(row.seq, row.t_ns, row.kind, row.block_id, row.value) for row in rows] == [
            (one.seq, one.t_ns, one.kind, one.block_id, one.value) for one in expected
        ]
        assert [row.req for row in rows] == [None if one.req == NO_ORDINAL else one.req for one in expected]
        assert all((row.hash is not None) == (row.kind == Kind.BlockCached) for row in rows)
    inserts.drop()
    assert not sa.inspect(database.engine).has_table(TABLE.name)


def test_moments_are_looked_at_as_often_as_asked(database, file, stored):
    """Every look checks by itself that it shows the moment asked for."""
    reading = LogReading(database, stored[0], 6)
    assert reading.last == file.rows - 1
    assert len(reading.states().wall) == len(reading.states_cold().wall) == 6
    forward, back = reading.steps()
    assert len(forward.wall) == len(back.wall) == 30
    whole, compared = reading.diffs()
    assert all(one > part for one, part in zip(whole.wall, compared.wall, strict=True))
    assert len(reading.block_histories(BLOCKS).wall) == len(reading.request_histories().wall) == 6


def test_dropping_a_file_from_the_page_cache_leaves_it_as_it_is(tmp_path):
    path = tmp_path / "file"
    data = Random(0).randbytes(100_000)
    path.write_bytes(data)
    drop_from_page_cache(path)
    assert path.read_bytes() == data


def test_figures_are_computed_as_they_are_named():
    from benchmarks.log import of_rounds

    assert percentile([1.0, 2.0, 3.0, 4.0, 5.0], 50) == 3
    assert milliseconds([0.001, 0.002], 100) == 2
    assert Slice(100, 2.0, 1.0).rate == 50
    # 100/s against 50, 20 and 10: the median of 2, 5 and 10.
    assert of_rounds([Slice(100, 1.0, 1.0)] * 3, [50.0, 20.0, 10.0]) == 5


@pytest.fixture
def short_path():
    """A folder near the root: the path of a socket has room for 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="kx-", dir="/tmp") as name:
        yield Path(name)


def test_the_whole_run_tells_its_figures_and_leaves_nothing_behind(url, short_path, monkeypatch, capsys):
    places = short_path / "places"
    places.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(places))
    command = ["log", "--json", "--rows", "9000", "--blocks", "256", "--moments", "3", "--database", url]
    monkeypatch.setattr("sys.argv", command)
    assert importlib.import_module("benchmarks.log").main() == 0
    result = json.loads(capsys.readouterr().out)
    assert result.keys() >= NAMED
    assert (result["rows"], result["blocks"], result["moments"]) == (9000, 256, 3)
    assert result["database"] == url.partition(":")[0]
    assert all(result[name] > 0 for name in NAMED - {"database"})
    assert result["backend_rows"] >= 9000
    assert list(places.iterdir()) == []
    again = open_database(url)
    with again.reading() as connection:
        sources = connection.execute(sa.text("SELECT name FROM source")).scalars().all()
    again.close()
    assert sorted(name.rpartition("-")[0] or name for name in sources) == [
        "bench-stored", "bench-stored-small", "followed",
    ]  # fmt: skip


def test_a_database_that_cannot_be_used_is_one_sentence(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["log", "--database", "nonsense"])
    assert importlib.import_module("benchmarks.log").main() == 2
    heard = capsys.readouterr()
    assert heard.out == ""
    assert heard.err.startswith("kvxray: ")
