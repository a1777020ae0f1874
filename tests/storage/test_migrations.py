"""The schema goes up and down with data in it, and loses only what the older one has no place for."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import sqlalchemy as sa
from kvxray_storage import models, schema
from kvxray_storage.hash_filter import encode_hash_filter
from kvxray_storage.postings import posting_rows, runs_of_holder
from kvxray_storage.records import EpochKey

CHUNK = {
    "source_id": 1, "epoch": 1, "wire_seq1": 1, "seq0": 0, "seq1": 9, "num_events": 10, "req0": 0, "num_req": 0,
    "hash0": 0, "num_hash": 0, "t0_ns": 1, "t1_ns": 2, "counts": b"12", "bits": b"", "data": b"\0\xff" * 5000,
}  # fmt: skip
KEYFRAME = {"source_id": 1, "epoch": 1, "seq": 5, "kind": "pool", "wire_seq": 1, "t_ns": 2, "state": b"state\0"}


def tables_of(connection):
    """As they are now, whatever the code knows."""
    found = sa.MetaData()
    found.reflect(connection)
    return found.tables


def rows_of(connection, table):
    return [dict(row._mapping) for row in connection.execute(sa.select(tables_of(connection)[table]))]


@pytest.fixture
def at_0001(database):
    """A database of the first schema, with a chunk and a keyframe in it."""
    with database.writing() as connection:
        schema.downgrade(connection, "0001")
        tables = tables_of(connection)
        assert "rollup_1s" not in tables
        epoch = {"source_id": 1, "epoch": 1, "incarnation": "life", "descriptor": "{}", "started_ns": 1}
        connection.execute(tables["source"].insert().values(source_id=1, name="a", labels="{}", created_ns=1))
        connection.execute(tables["epoch"].insert().values(**epoch, num_events=20, num_chunks=2))
        connection.execute(tables["chunk"].insert(), [CHUNK | {"wire_seq0": at} for at in (0, 7)])
        connection.execute(tables["keyframe"].insert().values(**KEYFRAME))
    return database


def test_what_an_older_kvxray_stored_is_kept_measured_and_marked(at_0001):
    with at_0001.writing() as connection:
        schema.upgrade(connection)
        chunks, [keyframe] = rows_of(connection, "chunk"), rows_of(connection, "keyframe")
        [epoch] = rows_of(connection, "epoch")
    assert [chunk["wire_seq0"] for chunk in chunks] == [0, 7]
    for chunk in chunks:
        assert {name: chunk[name] for name in CHUNK} == CHUNK
        assert (chunk["num_bytes"], chunk["hash_bits"]) == (10_002, None)
    assert {name: keyframe[name] for name in KEYFRAME} == KEYFRAME
    assert (keyframe["origin"], keyframe["num_bytes"], keyframe["rollup"]) == ("snapshot", 6, None)
    assert (epoch["num_events"], epoch["pruned_events"], epoch["pruned_seq"]) == (20, 0, None)
    at_0001.check_integrity()


def test_going_back_keeps_what_the_older_one_understands(at_0001):
    with at_0001.writing() as connection:
        schema.upgrade(connection)
        periodic = KEYFRAME | {"seq": 6, "origin": "periodic", "rollup": b"open"}
        connection.execute(models.keyframe.insert().values(**periodic))
        schema.downgrade(connection, "0001")
        assert rows_of(connection, "chunk") == [CHUNK | {"wire_seq0": at} for at in (0, 7)]
        assert rows_of(connection, "keyframe") == [KEYFRAME]
        assert not {"rollup_1s", "rollup_1m", "bookmark", "retention"} & set(tables_of(connection))
        schema.upgrade(connection)
    at_0001.check_integrity()


def test_large_columns_stand_last_so_that_small_ones_are_read_without_them(sqlite_database):
    with sqlite_database.reading() as connection:
        for table, large in (("chunk", "data"), ("keyframe", "state")):
            columns = [column["name"] for column in sa.inspect(connection).get_columns(table)]
            assert columns[-1] == large
            assert columns == [column.name for column in models.metadata.tables[table].columns]


def test_an_epoch_takes_its_rollups_along_and_a_source_its_settings(database):
    with database.writing() as connection:
        connection.execute(models.source.insert().values(source_id=1, name="a", labels="{}", created_ns=1))
        epoch = {"source_id": 1, "epoch": 1, "incarnation": "life", "descriptor": "{}", "started_ns": 1}
        connection.execute(models.epoch.insert().values(**epoch, num_events=0, num_chunks=0))
        zeros = {name.name: 0 for name in models.rollup_1s.columns if not name.nullable}
        row = zeros | {"source_id": 1, "epoch": 1, "t_s": 5, "ttft_histogram": b"", "itl_histogram": b""}
        connection.execute(models.rollup_1s.insert().values(**row))
        connection.execute(models.retention.insert().values(source_id=1, max_age_s=3600, changed_ns=1))
        connection.execute(sa.delete(models.source))
        assert rows_of(connection, "rollup_1s") == []
        assert rows_of(connection, "retention") == []


NAMES = {
    7: ("request-7", '{"session":"s\u00e9ance","deadline":5}', '["request",-1,5,"","s\u00e9ance","",""]'),
    300: ("request-300", "{}", '["request",-1,0,"","","",""]'),
    301: ("pin-1", '{"kind":"pin","parent":7,"salt":"ab"}', '["pin",7,0,"","","","ab"]'),
}
# Holder, first and last message: of two commits, in one of which they need two bytes.
RUNS = [(7, 0, 9), (300, 5, 9), (301, 0, 9), (300, 10, 99_999), (301, 10, 500)]


def fill_postings(connection):
    connection.execute(models.source.insert().values(source_id=1, name="a", labels="{}", created_ns=1))
    epoch = {"source_id": 1, "epoch": 1, "incarnation": "life", "descriptor": "{}", "started_ns": 1}
    connection.execute(models.epoch.insert().values(**epoch, num_events=0, num_chunks=0))
    key = {"source_id": 1, "epoch": 1}
    told = [{**key, "ordinal": at, "id": name, "detail": detail, "crc": 1} for at, (name, detail, _) in NAMES.items()]
    connection.execute(models.name.insert(), told)
    for first, last in ((0, 9), (10, 99_999)):
        places = sorted({(a, b) for _, a, b in RUNS if first <= a and b <= last})
        chunks = [
            SimpleNamespace(
                wire_seq0=a, wire_seq1=b, holders=np.array(sorted(h for h, *at in RUNS if at == [a, b]), np.uint32)
            )
            for a, b in places
        ]
        connection.execute(models.posting.insert(), posting_rows(EpochKey(1, 1), chunks))


def test_postings_and_names_are_said_in_the_words_of_each_schema(database):
    with database.writing() as connection:
        fill_postings(connection)
        packed = rows_of(connection, "posting")
        schema.downgrade(connection, "0005")
        runs = [(row["req"], row["wire_seq0"], row["wire_seq1"]) for row in rows_of(connection, "request_chunk")]
        assert sorted(runs) == sorted(RUNS)
        assert "posting" not in tables_of(connection)
        names = {row["ordinal"]: (row["id"], row["detail"], row["crc"]) for row in rows_of(connection, "name")}
        assert names == {at: (name, whole, None) for at, (name, _, whole) in NAMES.items()}
        schema.upgrade(connection)
        assert "request_chunk" not in tables_of(connection)
        for holder in NAMES:
            told = [(first, last) for one, first, last in RUNS if one == holder]
            assert runs_of_holder(connection, EpochKey(1, 1), holder) == told[::-1]
        assert {row["ordinal"]: row["detail"] for row in rows_of(connection, "name")} == {
            at: whole for at, (_, _, whole) in NAMES.items()
        }
        assert [(row["bucket"], row["wire_seq1"]) for row in packed] == [(0, 9), (1, 9), (1, 99_999)]
    database.check_integrity()


def test_filters_that_an_older_kvxray_cannot_check_go_on_the_way_back(database):
    hashes = bytes(range(32))
    filters = {0: encode_hash_filter(hashes, 32), 1: b"\3\x11", 2: b"", 3: None}
    with database.writing() as connection:
        fill_postings(connection)
        zeros = {column.name: 0 for column in models.chunk.columns if not column.nullable}
        zeros |= {"source_id": 1, "epoch": 1, "counts": b"", "bits": b"", "data": b"1234567"}
        for seq, bits in filters.items():
            row = {"wire_seq0": seq, "wire_seq1": seq, "seq0": seq, "seq1": seq, "num_bytes": 7 + len(bits or b"")}
            connection.execute(models.chunk.insert().values(**zeros | row, hash_bits=bits))
        schema.downgrade(connection, "0005")
        told = {row["wire_seq0"]: (row["hash_bits"], row["num_bytes"]) for row in rows_of(connection, "chunk")}
        assert told == {0: (None, 7), 1: (b"\3\x11", 9), 2: (b"", 7), 3: (None, 7)}
