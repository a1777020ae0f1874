"""Payloads that were made to do harm: refused in one sentence, or one event in a counter, and always cheap."""

from __future__ import annotations

import tracemalloc

import msgspec
import pytest
from kvxray_backend.sources.foreign import caps
from kvxray_backend.sources.foreign.caps import BadBatch
from kvxray_backend.sources.foreign.event_batches import decode_batch
from kvxray_backend.sources.foreign.oddity_count import MAX_NAME, MAX_NAMES, OTHERS

from tests.backend.foreign.payloads import CLEARED, eight, packed, removed, stored

DEEP = 100_000
EXTENSION = b"\xd6\x05abcd"
TIMESTAMP = b"\xd6\xff\x00\x00\x00\x01"


def with_raw(value: bytes, *, as_event: bool = False, **fields) -> bytes:
    """A batch of one store, with `value` spliced in as it is: as a field, or as an event before it."""
    raw = msgspec.Raw(value)
    return packed(*([raw] if as_event else []), {**stored([1]), **dict.fromkeys(fields, raw)}, removed(2))


@pytest.mark.parametrize(
    "payload",
    [b"", b"\xc1", b"\x93", b"\xc0", b"hello", b"\x91\x01", b"\x92\x01\x02", b"\x93\x01\x90\xa1x", b"\x92\xa1x\x90"],
)
def test_what_is_no_batch_is_refused_in_one_sentence(payload: bytes) -> None:
    with pytest.raises(BadBatch) as refused:
        decode_batch(payload)
    assert str(refused.value).endswith(".")
    assert "\n" not in str(refused.value)


def test_what_follows_a_batch_is_no_batch() -> None:
    with pytest.raises(BadBatch):
        decode_batch(packed(stored([1])) + b"\xc0")


@pytest.mark.parametrize("cut", [1, 10, 12, 30, 60])
def test_half_a_batch_is_none(cut: int) -> None:
    with pytest.raises(BadBatch):
        decode_batch(packed(stored([1]))[:-cut])


def test_a_payload_above_the_limit_is_refused_before_it_is_read() -> None:
    with pytest.raises(BadBatch, match="larger than"):
        decode_batch(b"\x93" + bytes(caps.MAX_PAYLOAD_BYTES))


@pytest.mark.parametrize("header", [b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff", b"\xdc\xff\xff", b"\xde\xff\xff"])
@pytest.mark.parametrize("before", [b"", b"\x93\x01", b"\x93\x01\x91", b"\x92\x01\x91\x92\xacBlockRemoved"])
def test_a_list_that_declares_more_than_its_bytes_costs_nothing(header: bytes, before: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(BadBatch):
            decode_batch(before + header)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("size", [10_000, 5 << 20])
def test_lists_within_lists_without_an_end_are_refused(size: int) -> None:
    with pytest.raises(BadBatch):
        decode_batch(b"\x93\x01" + b"\x91" * size)


def test_a_field_that_nests_deep_is_refused_with_its_batch() -> None:
    nested = b"\x91" * DEEP + b"\xc0"
    for name in ("block_hashes", "token_ids", "extra_keys", "new"):
        with pytest.raises(BadBatch):
            decode_batch(with_raw(nested, **{name: nested}))


def test_a_field_that_nests_a_little_too_deep_costs_its_event_or_itself() -> None:
    nested = b"\x91" * 100 + b"\xc0"
    assert decode_batch(with_raw(nested, block_hashes=1)).oddities.bad_events == 1
    keys = decode_batch(with_raw(b"\x91" + nested, extra_keys=1))
    assert keys.oddities.unknown_fields == {"BlockStored.extra_keys": 1}
    assert len(keys.events) == 2
    assert len(decode_batch(with_raw(nested, new=1)).events) == 2


@pytest.mark.parametrize("value", [EXTENSION, TIMESTAMP, b"\xc7\x00\x01", b"\xc9\x00\x00\x00\x02\x07ab"])
def test_extension_types_are_never_made(value: bytes) -> None:
    for name in ("block_hashes", "parent_block_hash", "token_ids", "block_size", "medium"):
        batch = decode_batch(with_raw(value, **{name: value}))
        assert (batch.oddities.bad_events, len(batch.events)) == (1, 1), name
    assert decode_batch(with_raw(value, as_event=True)).oddities.bad_events == 1
    assert decode_batch(with_raw(b"\x91" + value, block_hashes=1)).oddities.bad_events == 1
    assert decode_batch(with_raw(value, new=1)).oddities.unknown_fields == {"BlockStored.new": 1}
    assert decode_batch(with_raw(b"\x91\x91" + value, extra_keys=1)).oddities.unknown_fields == {
        "BlockStored.extra_keys": 1
    }
    for payload in (value, b"\x93" + value + b"\x90\xc0", b"\x93\x01" + value + b"\xc0", b"\x93\x01\x90" + value):
        with pytest.raises(BadBatch):
            decode_batch(payload)


def test_keys_of_an_event_may_be_numbers_and_are_then_unknown_fields() -> None:
    odd = msgspec.msgpack.encode({**removed(1), 7: "x", -1: None})
    batch = decode_batch(packed(msgspec.Raw(odd)))
    assert batch.events[0].hashes == (eight(1),)
    assert batch.oddities.unknown_fields == {"BlockRemoved.7": 1, "BlockRemoved.-1": 1}


@pytest.mark.parametrize(
    "event",
    [5, None, "BlockStored", b"BlockStored", [], {}, [1], [["BlockStored"]], {"type": 5}, {"type": None}, {1: 2},
     ["BlockStored"], {"type": "BlockStored"}, ["BlockRemoved", None], 1.5, True, {"kind": "BlockStored"},
     {str(n): n for n in range(100)}],
)  # fmt: skip
def test_a_bad_event_costs_one_counter_and_the_rest_is_kept(event) -> None:
    batch = decode_batch(packed(removed(1), event, CLEARED))
    assert len(batch.events) == 2
    assert batch.oddities.bad_events == 1


def test_unknown_names_are_bounded_in_number_and_length() -> None:
    events = [{"type": f"Kind{n}" + "x" * 1_000} for n in range(1_000)]
    fields = [removed(1, **{f"f{n}" + "y" * 1_000: 1}) for n in range(1_000)]
    odd = decode_batch(packed(*events, *fields)).oddities
    for names in (odd.unknown_events, odd.unknown_fields):
        assert len(names) == MAX_NAMES + 1
        assert max(map(len, names)) == MAX_NAME
        assert sum(names.values()) == 1_000
        assert names[OTHERS] == 1_000 - MAX_NAMES


def test_too_many_events_are_refused_before_any_is_made() -> None:
    payload = msgspec.msgpack.encode([1.0, [None] * (caps.MAX_EVENTS + 1), 0]) + b""
    with pytest.raises(BadBatch, match="events"):
        decode_batch(payload)


@pytest.mark.parametrize("event", [removed, lambda *hashes: ["BlockRemoved", list(hashes)]])
def test_too_many_hashes_are_refused(event) -> None:
    half = [5] * (caps.MAX_HASHES // 2)
    assert len(decode_batch(packed(event(*half), event(*half))).events) == 2
    with pytest.raises(BadBatch, match="hashes"):
        decode_batch(packed(event(*half), event(*half), event(1)))
    with pytest.raises(BadBatch, match="hashes"):
        decode_batch(packed(event(*half, *half, 1)))


def long_list(element: bytes, size: int) -> msgspec.Raw:
    return msgspec.Raw(b"\xdd" + size.to_bytes(4, "big") + element * size)


@pytest.mark.parametrize(
    "events",
    [
        [{**stored([1]), "new": long_list(b"\x90", 8_000_000)}],
        [None] * 5_000 + [stored([1], tokens=long_list(b"\xc0", 8_000_000))],
        [stored([1], extra_keys=long_list(b"\x90", 8_000_000))],
        [{**removed(), "block_hashes": long_list(b"\x90", caps.MAX_HASHES)}],
        [{**removed(), "block_hashes": long_list(b"\x05", caps.MAX_HASHES // 8)}] * 2,
        [{**removed(), "new": long_list(b"\x81\x01\x90", 5_000_000)}],
    ],
)
def test_a_batch_as_large_as_may_be_costs_a_small_multiple_of_its_bytes(events) -> None:
    payload = packed(*events)
    tracemalloc.start()
    try:
        decode_batch(payload)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("rank", [-1, 1 << 40, "0", 1.5, [0]])
def test_a_rank_that_makes_no_sense_makes_no_batch(rank) -> None:
    with pytest.raises(BadBatch):
        decode_batch(packed(rank=rank))


@pytest.mark.parametrize("number", [2**64 - 1, -(2**63), 0, 1, -1, 127, 128, -32, -33, 2**31, 2**32, 2**63])
def test_numbers_of_any_size_are_hashes(number: int) -> None:
    (event, more) = decode_batch(packed(removed(number), removed(number, -1, 5))).events
    assert event.hashes == (eight(number),)
    assert more.hashes == (eight(number), eight(-1), eight(5))


def test_text_that_is_not_unicode_is_bad_where_it_decides_and_left_out_where_it_describes() -> None:
    broken = b"\xa2\xff\xfe"
    assert decode_batch(with_raw(broken, medium=1)).oddities.bad_events == 1
    batch = decode_batch(with_raw(broken, lora_name=1))
    assert (len(batch.events), batch.events[0].lora) == (2, "")
    assert batch.oddities.unknown_fields == {"BlockStored.lora_name": 1}
