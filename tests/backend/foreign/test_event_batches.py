"""Every msgpack dialect says the same thing in the end: by shape, whichever engine or release wrote it."""

from __future__ import annotations

import msgspec
import pytest
from kvxray_backend.sources.foreign.event_batches import decode_batch
from kvxray_backend.sources.foreign.told import Cleared, Place, Removed, Spec, Stored

from tests.backend.foreign.payloads import CLEARED, GOLDEN, RECORDINGS, eight, frames, packed, removed, stored


def without_what_only_some_tell(event):
    """Releases came to tell medium, group and kind of cache one after the other."""
    if isinstance(event, Stored):
        return "stored", event.hashes, event.parent, event.block_size, event.num_tokens, event.why
    return ("removed", event.hashes) if isinstance(event, Removed) else ("cleared", event.medium)


WHOLE = [name for name, payload in GOLDEN.items() if b"Removed" in payload]


@pytest.mark.parametrize("name", WHOLE)
def test_the_same_three_events_come_out_of_each_release_of_vllm(name: str) -> None:
    batch = decode_batch(GOLDEN[name])
    assert [without_what_only_some_tell(event) for event in batch.events] == [
        ("stored", (eight(2**64 - 16), eight(5)), None, 4, 8, "store"),
        ("removed", (eight(5),)),
        ("cleared", ""),
    ]
    assert batch.ts == 1.5
    assert not batch.oddities


def test_the_golden_dialects_are_all_here() -> None:
    assert len(WHOLE) == 4
    assert len(GOLDEN) == 7


@pytest.mark.parametrize("name", sorted(set(GOLDEN) - set(WHOLE)))
def test_signed_numbers_and_bytes_are_hashes_too(name: str) -> None:
    (event,) = decode_batch(GOLDEN[name]).events
    assert isinstance(event, Stored)
    assert event.hashes == ((b"\xab" * 32,) if name.startswith("bytes") else (eight(-16),))
    assert event.num_tokens == event.block_size == 4


def test_what_newer_releases_tell_is_told() -> None:
    newest = decode_batch(GOLDEN["vllm>=0.23.1/0.24 map (0.33.0 real encoder)"])
    arrays = decode_batch(GOLDEN["vllm +lora_name+extra_keys+group_idx+spec array (0.2x)"])
    assert newest.events == arrays.events
    assert newest.rank == 0
    assert newest.events[0].place == Place("GPU", 0)
    assert newest.events[0].spec == Spec("full_attention")
    assert not newest.events[1].is_any_group
    oldest = decode_batch(GOLDEN["vllm 0.8.5..0.9.1 array, no dp_rank, no medium"])
    assert oldest.rank is None
    assert oldest.events[0].place == Place("", 0)
    assert oldest.events[1].is_any_group


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.split(".frames")[0])
def test_every_recorded_frame_is_understood_whole(path) -> None:
    payloads = frames(path)
    assert payloads
    for payload in payloads:
        batch = decode_batch(payload)
        raw_ts, raw_events, raw_rank = msgspec.msgpack.decode(payload)
        assert not batch.oddities
        assert (batch.ts, batch.rank, len(batch.events)) == (raw_ts, raw_rank, len(raw_events))
        for event, raw in zip(batch.events, raw_events, strict=True):
            fields = raw if isinstance(raw, dict) else dict(zip(("type", "block_hashes"), raw, strict=False))
            hashes = [one if isinstance(one, bytes) else eight(one) for one in fields.get("block_hashes", ())]
            assert list(getattr(event, "hashes", ())) == hashes
            assert type(event).__name__ in fields["type"].replace("AllBlocksCleared", "Cleared")


def test_maps_and_arrays_occur_in_one_batch() -> None:
    batch = decode_batch(packed(stored([1]), ["BlockRemoved", [1], "GPU", 2], CLEARED, ["AllBlocksCleared"]))
    assert [type(event) for event in batch.events] == [Stored, Removed, Cleared, Cleared]
    assert batch.events[1].place == Place("GPU", 2)
    assert not batch.oddities


def test_an_array_and_a_map_of_one_event_are_the_same() -> None:
    as_array = ["BlockStored", [1], None, [0, 1, 2, 3], 4, None, "GPU", None, [None], 0]
    as_map = stored([1], lora_id=None, lora_name=None, group_idx=0, extra_keys=[None])
    assert decode_batch(packed(as_array)).events == decode_batch(packed(as_map)).events


@pytest.mark.parametrize("length", range(2, 12))
def test_an_array_may_stop_after_any_field(length: int) -> None:
    whole = ["BlockStored", [7], 6, [1, 2], 2, None, "CPU", "adapter", [None], 3, "mamba", 64]
    (event,) = decode_batch(packed(whole[:length])).events
    assert event.hashes == (eight(7),)
    assert event.place == Place("CPU" if length > 6 else "", 3 if length > 9 else 0)
    assert event.lora == ("adapter" if length > 7 else "")


def test_what_comes_after_the_known_fields_is_counted_and_passed_over() -> None:
    longer = ["BlockStored", [7], None, [1, 2], 2, None, "GPU", None, None, 0, "mamba", 64, "new", {"a": 1}]
    batch = decode_batch(msgspec.msgpack.encode([1.0, [longer, ["BlockRemoved", [7], "GPU", 0, 9]], 0, "more", 5]))
    assert [event.hashes for event in batch.events] == [(eight(7),), (eight(7),)]
    assert batch.oddities.unknown_fields == {
        "BlockStored.12": 1,
        "BlockStored.13": 1,
        "BlockRemoved.4": 1,
        "batch.3": 1,
        "batch.4": 1,
    }
    assert batch.oddities.bad_events == 0


def test_a_field_that_nobody_knows_is_counted_by_its_name() -> None:
    batch = decode_batch(packed(stored([1], event_version=1), removed(1, remaining_copy_counts=[1]), removed(2, x=1)))
    assert len(batch.events) == 3
    assert batch.oddities.unknown_fields == {
        "BlockStored.event_version": 1,
        "BlockRemoved.remaining_copy_counts": 1,
        "BlockRemoved.x": 1,
    }


def test_an_event_that_nobody_knows_is_counted_by_its_name() -> None:
    batch = decode_batch(packed(stored([1]), {"type": "Ignored"}, ["Ignored", 1], {"type": "BlockPinned", "x": 1}))
    assert len(batch.events) == 1
    assert batch.oddities.unknown_events == {"Ignored": 2, "BlockPinned": 1}
    assert batch.oddities.bad_events == 0


@pytest.mark.parametrize("payload", [[1.0, []], [1, [], None], {"ts": 1.0, "events": []}])
def test_a_batch_may_have_two_elements_or_be_a_map(payload) -> None:
    batch = decode_batch(msgspec.msgpack.encode(payload))
    assert (batch.ts, batch.rank, batch.events) == (1.0, None, ())


@pytest.mark.parametrize("name", ["dp_rank", "data_parallel_rank", "attn_dp_rank"])
def test_the_rank_is_found_under_each_name_that_engines_give_it(name: str) -> None:
    assert decode_batch(msgspec.msgpack.encode({"ts": 1.0, "events": [CLEARED], name: 3})).rank == 3


@pytest.mark.parametrize("ts", [float("nan"), float("inf"), -1.0, 1e300])
def test_a_time_that_makes_no_sense_is_unknown_not_zero(ts: float) -> None:
    batch = decode_batch(packed(stored([1]), ts=ts))
    assert batch.ts is None
    assert len(batch.events) == 1
    assert batch.oddities.unknown_fields == {"batch.ts": 1}


def test_spellings_of_one_hash_are_one_hash() -> None:
    spellings = [2**64 - 1, -1, b"\xff" * 8, "ff" * 8, "FF" * 8]
    batch = decode_batch(packed(*(stored([one], parent=one) for one in spellings)))
    assert {(event.hashes, event.parent) for event in batch.events} == {((b"\xff" * 8,), b"\xff" * 8)}
    assert len(batch.events) == len(spellings)


@pytest.mark.parametrize("width", [8, 16, 32])
def test_hashes_of_bytes_and_hex_keep_their_width(width: int) -> None:
    raw = bytes(range(width))
    batch = decode_batch(packed(removed(raw, raw[::-1]), removed(raw.hex(), raw[::-1].hex())))
    assert [event.hashes for event in batch.events] == [(raw, raw[::-1])] * 2


@pytest.mark.parametrize(
    "hashes",
    [[b"short"], [b"x" * 33], ["zz" * 8], ["0x00000000000000"], [" " * 16], [1.5], [True], [None], [[1]], "ab", 5],
)
def test_what_is_no_hash_costs_its_event_alone(hashes) -> None:
    bad = {"type": "BlockRemoved", "block_hashes": hashes}
    batch = decode_batch(packed(removed(1), bad, removed(2)))
    assert [event.hashes for event in batch.events] == [(eight(1),), (eight(2),)]
    assert batch.oddities.bad_events == 1


def test_tokens_in_pairs_count_as_one_each() -> None:
    (event,) = decode_batch(packed(stored([1, 2], tokens=[[n, n + 1] for n in range(8)]))).events
    assert (event.num_tokens, event.block_size) == (8, 4)


def test_a_placeholder_tells_hashes_and_nothing_else() -> None:
    (event,) = decode_batch(packed(stored([1, 2], tokens=[], block_size=0))).events
    assert (event.why, event.num_tokens, event.block_size, event.parent) == ("placeholder", 0, 0, None)
    assert event.token_digests == ()


def test_tokens_that_were_not_sent_are_unknown_not_none() -> None:
    assert decode_batch(packed(["BlockStored", [1]])).events[0].num_tokens is None
    assert decode_batch(packed({"type": "BlockStored", "block_hashes": [1], "block_size": 16})).events[0].why == "store"


def test_more_hashes_than_tokens_are_told_as_they_are() -> None:
    (event,) = decode_batch(packed(stored([1, 2, 3, 4], tokens=[1, 2, 3], block_size=256))).events
    assert (len(event.hashes), event.num_tokens, event.block_size) == (4, 3, 256)


def test_who_stored_and_where_is_told() -> None:
    more = {"session_id": "s", "cache_salt": "t", "lora_name": "a", "locality": "REMOTE", "ownership": "tier-2"}
    window = {"group_idx": 1, "kv_cache_spec_kind": "sliding_window", "kv_cache_spec_sliding_window": 128}
    (event, gone) = decode_batch(
        packed(stored([1], **more, **window), removed(1, locality="LOCAL", ownership="tier-2", group_idx=1))
    ).events
    assert (event.session, event.salt, event.lora, event.locality, event.ownership) == (
        "s",
        "t",
        "a",
        "REMOTE",
        "tier-2",
    )
    assert (event.place, event.spec) == (Place("GPU", 1), Spec("sliding_window", 128))
    assert (gone.locality, gone.ownership) == ("LOCAL", "tier-2")


def test_an_adapter_without_a_name_is_told_by_its_number() -> None:
    assert decode_batch(packed(stored([1], lora_id=2))).events[0].lora == "2"
    assert decode_batch(packed(stored([1], lora_id=2, lora_name="two"))).events[0].lora == "two"


@pytest.mark.parametrize(
    "field", ["session_id", "cache_salt", "lora_name", "locality", "kv_cache_spec_kind", "extra_keys"]
)
def test_what_only_describes_is_left_out_where_it_is_not_what_it_should_be(field: str) -> None:
    batch = decode_batch(packed(stored([1], **{field: 5})))
    assert batch.events[0].hashes == (eight(1),)
    assert batch.oddities.unknown_fields == {f"BlockStored.{field}": 1}
    assert batch.oddities.bad_events == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"medium": 5},
        {"group_idx": -1},
        {"group_idx": 2**40},
        {"block_size": -1},
        {"block_size": "4"},
        {"medium": "x" * 600},
        {"token_ids": 7},
        {"token_ids": {}},
        {"parent_block_hash": [1]},
        {"parent_block_hash": "no hash"},
    ],
)
def test_what_decides_which_block_is_meant_must_be_right(wrong) -> None:
    batch = decode_batch(packed({**stored([1]), **wrong}, removed(2)))
    assert [type(event) for event in batch.events] == [Removed]
    assert batch.oddities.bad_events == 1


def test_payloads_are_told_apart_by_their_digest() -> None:
    one, same, other = (decode_batch(packed(removed(n))).digest for n in (1, 1, 2))
    assert one == same != other
    assert len(one) == 16
