"""Chunks give back what was put in: for the eye event by event, for the fold as one message; damage is noticed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.recorded import to_message
from kvxray_storage.chunk import DamagedChunk, decode_chunk, draft
from kvxray_storage.chunk_builder import ChunkBuilder
from kvxray_storage.event_rows import ChunkEvents
from kvxray_storage.kind_counts import decode_counts
from kvxray_storage.packing import Packer
from kvxray_storage.records import EpochKey

from tests.engine.stream.scripted_pool import ScriptedPool
from tests.storage.told_messages import Teller, descriptor, expand, streams

KEY = EpochKey(1, 1)


def cut_into_chunks(messages, chunk_events=20):
    builder = ChunkBuilder(KEY, chunk_events, 0.25, Packer())
    closed = []
    for message in messages:
        closed += builder.add(message, 1, 0.0)
        builder.check_integrity()
    last = builder.cut()
    return closed + ([last] if last else [])


def all_rows(chunks, names):
    rows = []
    for chunk in chunks:
        events = ChunkEvents(decode_chunk(chunk.data))
        rows += events.rows(np.arange(len(events)), names)
    return rows


@given(stream=streams(), chunk_events=st.sampled_from([1, 7, 20, 4096]))
@settings(max_examples=100, deadline=None)
def test_every_event_comes_back_as_a_plain_expansion_has_it(stream, chunk_events):
    messages, names = stream
    chunks = cut_into_chunks(messages, chunk_events)
    assert all_rows(chunks, names) == expand(messages, names)


@given(stream=streams())
@settings(max_examples=50, deadline=None)
def test_what_is_indexed_of_a_chunk_is_what_is_in_it(stream):
    messages, names = stream
    for chunk in cut_into_chunks(messages):
        events = ChunkEvents(decode_chunk(chunk.data))
        rows = events.rows(np.arange(len(events)), names)
        assert chunk.num_events == len(rows) == chunk.seq1 - chunk.seq0 + 1
        assert events.seqs().tolist() == [row.seq for row in rows] == list(range(chunk.seq0, chunk.seq1 + 1))
        counts = decode_counts(chunk.counts)
        assert counts == {kind: sum(row.kind == kind for row in rows) for kind in {row.kind for row in rows}}
        assert set(chunk.holders.tolist()) == {row.req for row in rows if row.req < 2**31}


@given(stream=streams(), block=st.integers(0, 70))
@settings(max_examples=50, deadline=None)
def test_the_events_of_a_block_are_found(stream, block):
    messages, names = stream
    for chunk in cut_into_chunks(messages):
        events = ChunkEvents(decode_chunk(chunk.data))
        found = events.rows(events.positions_of_block(block), names)
        rows = events.rows(np.arange(len(events)), names)
        moves = ("BlockCopied", "BlockMoved")
        assert found == [
            row
            for row in rows
            if row.block_id is not None and (row.block_id == block or (row.kind.name in moves and row.value == block))
        ]


@given(seed=st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_folding_chunks_gives_the_state_that_folding_messages_gives(seed):
    pool = ScriptedPool(24, seed)
    for _ in range(40):
        pool.run_step()
    messages = [to_message(one, "engine", "life-1", 32) for one in pool.recorder.handover.take()[0]]
    by_message = BlockMap(descriptor(24))
    by_chunk = BlockMap(descriptor(24))
    for message in messages:
        by_message.apply(message)
    for chunk in cut_into_chunks(messages, 100):
        by_chunk.apply(decode_chunk(chunk.data).message)
    by_chunk.check_integrity()
    for column in ("ref", "hash_ordinal", "parent_ordinal", "slots", "group", "written", "state"):
        assert (getattr(by_chunk, column) == getattr(by_message, column)).all(), column
    # Joined times count whole microseconds from the first message's t0.
    assert np.abs(by_chunk.t_last - by_message.t_last).max() < 1000
    assert [of.tolist() for of in by_chunk.holds()] == [of.tolist() for of in by_message.holds()]
    assert (by_chunk.next_seq, by_chunk.next_wire_seq) == (by_message.next_seq, by_message.next_wire_seq)
    assert by_chunk.requests.names == by_message.requests.names


@given(at=st.integers(0, 10_000), bit=st.integers(0, 7))
@settings(max_examples=200, deadline=None)
def test_a_flipped_bit_is_noticed(at, bit):
    teller = Teller()
    data = draft([teller.tell_step(step) for step in range(5)]).pack()
    damaged = bytearray(data)
    damaged[at % len(data)] ^= 1 << bit
    with pytest.raises(DamagedChunk) as refusal:
        decode_chunk(bytes(damaged))
    assert str(refusal.value).endswith(".")


@given(data=st.binary(max_size=60))
def test_noise_is_no_chunk(data):
    with pytest.raises(DamagedChunk):
        decode_chunk(data)


def test_the_first_byte_is_the_version():
    data = draft([Teller().tell_step()]).pack()
    assert data[0] == 1
    with pytest.raises(DamagedChunk, match="version 2"):
        decode_chunk(b"\x02" + data[1:])


def test_hash_bytes_stay_outside_the_compressed_part():
    message = Teller().tell([], num_hashes=40)
    data = draft([message]).pack()
    assert data.endswith(bytes(message.columns.hashes))
    assert bytes(decode_chunk(data).message.columns.hashes) == bytes(message.columns.hashes)
