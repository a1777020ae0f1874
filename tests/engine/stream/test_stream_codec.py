"""Messages survive the way through bytes, and nothing else is taken for one."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kvxray_engine.stream.codec import (
    MAX_BLOCKS,
    BadMessage,
    decode,
    decode_descriptor,
    decode_own,
    encode,
    encode_descriptor,
)
from kvxray_engine.stream.columns import COLUMN_TYPES, Columns
from kvxray_engine.stream.recorded import encode_recorded, to_message
from kvxray_engine.stream.schema import ROW_KINDS, SCHEMA_VERSION, Cause, Kind, Name

from tests.engine.stream.scripted_pool import ScriptedPool, descriptor


def payload(seed: int = 3, steps: int = 6) -> bytes:
    pool = ScriptedPool(16, seed)
    for _ in range(steps):
        pool.run_step()
    recorded, _ = pool.recorder.handover.take()
    message = to_message(recorded[-1], "test", "life-1", 32)
    return encode(message.header, message.columns)


@given(seed=st.integers(0, 1000), steps=st.integers(1, 10))
@settings(max_examples=40, deadline=None)
def test_round_trip(seed: int, steps: int) -> None:
    data = payload(seed, steps)
    message = decode(data)
    assert encode(message.header, message.columns) == data
    assert message.columns.num_events == message.header.n


@given(at=st.integers(0, 100_000), value=st.integers(0, 255))
@settings(max_examples=300, deadline=None)
def test_a_flipped_byte_is_refused_in_one_sentence_or_still_a_lawful_message(at: int, value: int) -> None:
    data = bytearray(payload())
    data[at % len(data)] = value
    try:
        message = decode(bytes(data))
    except BadMessage as refusal:
        assert str(refusal)[0].isupper()
        assert str(refusal).endswith(".")
    else:
        assert message.columns.num_events == message.header.n
        assert set(message.columns.cause.tolist()) <= set(Cause)


@given(data=st.binary(max_size=200))
def test_noise_is_refused(data: bytes) -> None:
    with pytest.raises(BadMessage):
        decode(data)


@given(length=st.integers(0, 400))
def test_a_message_cut_short_is_refused(length: int) -> None:
    data = payload()
    with pytest.raises(BadMessage):
        decode(data[: min(length, len(data) - 1)])


def test_another_version_is_named_in_the_refusal() -> None:
    data = bytearray(payload())
    data[4] = SCHEMA_VERSION + 1
    with pytest.raises(BadMessage, match=f"version {SCHEMA_VERSION + 1}; this kvxray reads {SCHEMA_VERSION}"):
        decode(bytes(data))


@pytest.mark.parametrize(
    ("column", "value", "what"), [("kind", 63, "kind"), ("cause", 18, "cause"), ("cause", 255, "cause")]
)
def test_what_no_word_of_the_schema_stands_for_is_refused(column: str, value: int, what: str) -> None:
    message = decode(payload())
    forged = getattr(message.columns, column).copy()
    forged[0] = value
    setattr(message.columns, column, forged)
    with pytest.raises(BadMessage, match=f"an unknown {what}"):
        decode(encode(message.header, message.columns))


def test_a_hash_ordinal_the_stream_has_not_told_is_refused() -> None:
    message = decode(payload(seed=5, steps=9))
    columns = message.columns
    a0 = columns.a0.copy()
    cached = np.flatnonzero(columns.kind == Kind.BlockCached)
    if not len(cached):
        a0 = np.full(1, 4_000_000, np.uint32)
        columns = Columns(
            *(
                np.array([v], t)
                for v, (_, t) in zip((Kind.BlockCached, 0, 0, 1, 0, 0, 1, -1), COLUMN_TYPES, strict=True)
            )
        )
    a0[cached[:1] if len(cached) else [0]] = 4_000_000
    forged = Columns(columns.kind, columns.cause, columns.req, columns.n, a0, columns.a1, columns.blk, columns.val)
    header = msgspec.structs.replace(message.header, n=forged.num_events)
    with pytest.raises(BadMessage, match="hash that the stream has not told"):
        decode(encode(header, forged))


def test_kinds_with_rows_and_values_are_the_documented_ones() -> None:
    assert {kind for kind in Kind if kind.name.startswith(("Block", "Residency"))} == ROW_KINDS


def test_times_shift_with_the_header() -> None:
    message = decode(payload())
    shifted = message.columns.with_time_shifted(500)
    starts = message.columns.kind == Kind.StepStarted
    assert (shifted.a0[starts] == message.columns.a0[starts] + 500).all()
    assert (shifted.a0[~starts] == message.columns.a0[~starts]).all()
    with pytest.raises(OverflowError):
        message.columns.with_time_shifted(2**32)


def test_names_keep_their_fields() -> None:
    name = Name("r1", kind="lease", parent=4, deadline=10, tenant="t", session="s", lora="l", salt="x")
    pool = ScriptedPool(8)
    pool.recorder.new_holder(name)
    pool.recorder.op(Kind.LeaseChanged, Cause.lease, 0, 500)
    pool.recorder.flush()
    (recorded,), _ = pool.recorder.handover.take()
    message = to_message(recorded, "test", "life-1", 32)
    assert decode(encode(message.header, message.columns)).header.names == (name,)


def test_what_is_sent_is_the_message_as_columns() -> None:
    """The publisher sends bytes made straight from the recorder's lists."""
    pool = ScriptedPool(32, seed=4)
    for _ in range(40):
        pool.run_step()
    recorded, _ = pool.recorder.handover.take()
    for one in recorded:
        message = to_message(one, "test", "life-1", 32)
        sent = encode_recorded(one, "test", "life-1", 32)
        assert sent == encode(message.header, message.columns)
        own = decode_own(sent)
        assert encode(own.header, own.columns) == sent


@pytest.mark.parametrize("field", ["operations", "blk"])
def test_a_number_that_fits_no_column_is_refused(field: str) -> None:
    pool = ScriptedPool(32, seed=7)
    for _ in range(5):
        pool.run_step()
    recorded = next(one for one in pool.recorder.handover.take()[0] if one.blk)
    getattr(recorded, field)[2 if field == "operations" else 0] = 1 << 32
    with pytest.raises(OverflowError):
        encode_recorded(recorded, "test", "life-1", 32)


def test_a_descriptor_from_before_a_field_was_added_is_read() -> None:
    told = msgspec.json.decode(encode_descriptor(descriptor(16)))
    del told["bytes_per_block_fp16"]
    assert decode_descriptor(msgspec.json.encode(told)) == descriptor(16)


def test_a_descriptor_of_more_blocks_than_can_be_followed_is_refused_in_one_sentence() -> None:
    largest = msgspec.structs.replace(descriptor(16), num_blocks=MAX_BLOCKS)
    assert decode_descriptor(encode_descriptor(largest)).num_blocks == MAX_BLOCKS
    for num_blocks in (MAX_BLOCKS + 1, 2**31 - 1):
        with pytest.raises(BadMessage, match=r"at most 16,777,216 are followed\.$"):
            decode_descriptor(encode_descriptor(msgspec.structs.replace(largest, num_blocks=num_blocks)))
