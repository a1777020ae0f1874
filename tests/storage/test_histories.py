"""What happened to a request, to a hash and to the bytes behind an ordinal: as a plain walk over all events has it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kvxray_engine.stream.schema import NO_ORDINAL, Kind
from kvxray_storage import request_history as requests
from kvxray_storage.database import open_database
from kvxray_storage.event_log import EventLog
from kvxray_storage.hash_history import HashStay, hash_history, stays_of
from kvxray_storage.hash_lookup import hashes_of
from kvxray_storage.request_history import find_requests, request_history

from benchmarks.measuring.model_engine import ModelEngine
from tests.storage.made_up_history import MadeUpHistory
from tests.storage.told_messages import expand


@pytest.fixture(scope="module")
def database(make_database_url):
    opened = open_database(make_database_url())
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def life(database):
    """(key, the history, all its events): joined late, and cleared once."""
    made = MadeUpHistory(ModelEngine(160, rows=64, seed=31, seldom=0.96))
    made.steps(20)
    made.told.clear()
    made.snapshot()
    made.steps(160)
    with EventLog(database, chunk_events=250) as log:
        key = made.store(log)
    names = {ordinal: name.id for ordinal, name in made.truth.requests.names.items()}
    rows = expand(made.told[1:], names)
    assert any(row.kind == Kind.CacheCleared for row in rows)
    assert any(row.kind == Kind.BlockMoved for row in rows)
    assert any(row.taker_id not in (None, row.request_id) for row in rows)
    return key, made, rows


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_the_history_of_a_request_is_its_events_newest_first(database, life, data):
    key, made, rows = life
    ordinal = data.draw(st.integers(0, made.engine.recorder.next_req))
    limit = data.draw(st.integers(1, 80))
    last = data.draw(st.none() | st.sampled_from(rows).map(lambda row: row.seq))
    expected = [row for row in reversed(rows) if row.req == ordinal and (last is None or row.seq <= last)]
    assert request_history(database, key, ordinal, limit, last) == expected[:limit]


def test_only_chunks_that_a_request_is_in_are_read(database, life, monkeypatch):
    key, _, rows = life
    decoded = []
    original = requests.decode_chunk
    monkeypatch.setattr(requests, "decode_chunk", lambda data: decoded.append(1) or original(data))
    assert request_history(database, key, 10**6, 50) == []
    assert decoded == []
    newest = next(row.req for row in reversed(rows) if row.req != NO_ORDINAL)
    assert len(request_history(database, key, newest, 1)) == 1
    assert len(decoded) == 1


def test_requests_are_found_by_id_in_every_epoch(database, life):
    key, made, _ = life
    ordinal = made.engine.recorder.next_req - 1
    name = made.truth.requests.names[ordinal].id
    assert find_requests(database, key.source_id, name) == [(key, ordinal)]
    assert find_requests(database, key.source_id, "nobody") == []


def test_ordinals_resolve_to_hashes_told_or_brought_by_the_snapshot(database, life):
    key, made, _ = life
    told_before = made.told[0].state.ordinals_carried().tolist()
    wanted = {ordinal: made.slow_truth.hashes[ordinal] for ordinal in made.truth.ordinals_carried().tolist()}
    wanted |= {ordinal: made.slow_truth.hashes[ordinal] for ordinal in told_before}
    assert told_before
    assert hashes_of(database, key, [*wanted, 10**8]) == wanted
    assert hashes_of(database, key, []) == {}


def plain_stays(rows, ordinal, pool_of, last):
    """Walks over all events with the blocks that carry the hash."""
    stays, carrying = [], {}
    for row in rows:
        if last is not None and row.seq > last:
            break
        if row.kind == Kind.CacheCleared:
            gone = [block for block in carrying if pool_of(block) == row.a0]
        elif row.kind in (Kind.BlockEvicted, Kind.BlockAllocated, Kind.BlockCached, Kind.BlockMoved):
            gone = [row.block_id] if row.block_id in carrying else []
        else:
            gone = []
        moved = row.kind == Kind.BlockMoved and row.value in carrying
        for block in gone:
            stays[carrying.pop(block)][1] = row
        if row.kind == Kind.BlockReferenced and row.block_id in carrying:
            stays[carrying[row.block_id]][2] += 1
        if moved or (row.kind == Kind.BlockCached and row.seq == ordinal[1]):
            carrying[row.block_id] = len(stays)
            stays.append([row, None, 0])
    return [HashStay(ordinal[0], since.block_id, since, until, hits) for since, until, hits in stays]


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_the_stays_of_a_hash_are_what_a_plain_walk_finds(database, life, data):
    key, made, rows = life
    first = made.told[0].state.next_seq
    cached = []
    for row in rows:
        if row.kind == Kind.BlockCached:
            at = cached[-1][2] + 1 if cached and cached[-1][1] == row.seq - 1 and cached[-1][3] == row.a0 else 0
            cached.append((row.a0 + at, row.seq, at, row.a0))
    moved_or_any = data.draw(st.sampled_from(cached))
    last = data.draw(st.none() | st.integers(first, rows[-1].seq))
    num_gpu = made.engine.pool.num_gpu
    expected = plain_stays(rows, moved_or_any, lambda block: int(block >= num_gpu), last)
    assert stays_of(database, key, moved_or_any[0], last) == expected
    block_hash = made.slow_truth.hashes[moved_or_any[0]]
    assert set(expected) <= set(hash_history(database, key, block_hash, 1000, last))


def test_a_hash_told_again_has_stays_under_every_ordinal(database, life):
    key, made, _ = life
    by_hash = {}
    for ordinal, one in made.slow_truth.hashes.items():
        if ordinal >= made.told[1].header.hash0:
            by_hash.setdefault(one, []).append(ordinal)
    again = [(one, ordinals) for one, ordinals in by_hash.items() if len(ordinals) > 1]
    assert again
    for one, ordinals in again[:4]:
        stays = hash_history(database, key, one, 1000)
        assert {stay.ordinal for stay in stays} == set(ordinals)
        assert hash_history(database, key, one, 1) == stays[:1]
    assert hash_history(database, key, bytes(32), 10) == []
