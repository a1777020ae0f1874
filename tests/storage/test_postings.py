"""Postings tell exactly in which chunks a holder occurs, however ordinals and messages lie."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kvxray_storage import models
from kvxray_storage.chunk import DamagedChunk
from kvxray_storage.event_log import EventLog
from kvxray_storage.postings import holders_between, posting_rows, runs_of_holder, unpack
from kvxray_storage.records import EpochKey
from kvxray_storage.request_history import request_history

from tests.storage.told_messages import T0_NS, Teller, a_step, descriptor, expand

KEY = EpochKey(1, 1)
WAIT_S = 60.0
ORDINALS = st.one_of(st.integers(0, 600), st.integers(2**31, 2**31 + 300))
LENGTHS = st.sampled_from([1, 2, 200, 70_000, 2**33])


def chunk(wire_seq0, wire_seq1, *holders):
    return SimpleNamespace(wire_seq0=wire_seq0, wire_seq1=wire_seq1, holders=np.array(sorted(holders), np.uint32))


def unpacked(rows):
    """(holder, first, last) of all rows."""
    found = [unpack(row["bucket"], row["wire_seq0"], row["packed"]) for row in rows]
    return [one for runs in found for one in zip(runs.holders.tolist(), runs.firsts.tolist(), runs.lasts.tolist(),
            strict=True)]  # fmt: skip


@given(st.lists(st.tuples(LENGTHS, LENGTHS, st.sets(ORDINALS, max_size=40)), min_size=1, max_size=6))
def test_a_row_of_256_holders_tells_the_first_and_the_last_chunk_of_each(told):
    at, chunks, truth = 0, [], {}
    for distance, length, holders in told:
        first, last = at + distance, at + distance + length - 1
        at = last + 1
        chunks.append(chunk(first, last, *holders))
        for holder in holders:
            truth[holder] = (truth.get(holder, (first,))[0], last)
    rows = posting_rows(KEY, chunks)
    assert unpacked(rows) == [(holder, *truth[holder]) for holder in sorted(truth)]
    assert [row["bucket"] for row in rows] == sorted({holder // 256 for holder in truth})
    for row in rows:
        runs = [truth[holder] for holder in truth if holder // 256 == row["bucket"]]
        assert (row["wire_seq0"], row["wire_seq1"]) == (min(runs)[0], max(last for _, last in runs))


@pytest.mark.parametrize(
    "packed", [b"", b"\x01", b"\x03abc", b"\x01abcd", b"\x02" + bytes(4), b"\x01" + bytes(257 * 3)]
)
def test_a_damaged_row_is_refused(packed):
    with pytest.raises(DamagedChunk):
        unpack(0, 0, packed)


@pytest.fixture
def stored(database):
    """Rows of a few commits: of the second, a part was stored before what came late in its middle."""
    commits = [
        [chunk(0, 9, 1, 300), chunk(10, 19, 1)],
        [chunk(20, 29, 1, 2), chunk(40, 49, 1)],
        [chunk(30, 39, 1, 2)],
        [chunk(60, 69, 1, 256 + 1)],
    ]
    with database.writing() as connection:
        connection.execute(models.source.insert().values(source_id=1, name="a", labels="{}", created_ns=1))
        epoch = {"source_id": 1, "epoch": 1, "incarnation": "life", "descriptor": "{}", "started_ns": 1}
        connection.execute(models.epoch.insert().values(**epoch, num_events=0, num_chunks=0))
        for chunks in commits:
            connection.execute(models.posting.insert(), posting_rows(KEY, chunks))
    return database


def test_stretches_of_a_holder_are_told_once_the_newest_first(stored):
    with stored.reading() as connection:
        told = {holder: runs_of_holder(connection, KEY, holder) for holder in (0, 1, 2, 257, 300, 513)}
    assert told == {
        0: [], 1: [(60, 69), (20, 49), (0, 19)], 2: [(30, 39), (20, 29)], 257: [(60, 69)], 300: [(0, 9)], 513: [],
    }  # fmt: skip


def test_holders_that_anything_names_are_found_by_their_range(stored):
    with stored.reading() as connection:
        assert holders_between(connection, KEY, 0, 255) == {1, 2}
        assert holders_between(connection, KEY, 256, 10_000) == {257, 300}


def test_a_request_whose_message_came_late_is_told_once_and_in_order(database):
    teller = Teller()
    first = teller.tell_step()
    messages = [first, *(teller.tell(a_step(step, 0, block=step), step=step) for step in range(2, 6))]
    with EventLog(database, chunk_events=1) as log:
        key = log.open_epoch("engine", {}, teller.incarnation, descriptor(), T0_NS)
        for some in ([messages[at] for at in (0, 1, 3, 4)], [messages[2]]):
            for message in some:
                assert log.append(key, message)
            assert log.flush(WAIT_S)
    named = [row.seq for row in expand(messages, teller.names) if row.req == 0]
    assert [row.seq for row in request_history(database, key, 0, 1000)] == named[::-1]
