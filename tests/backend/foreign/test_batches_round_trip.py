"""Whatever an engine tells, in whichever dialect, comes out as it went in."""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from kvxray_backend.sources.foreign.caps import BadBatch
from kvxray_backend.sources.foreign.event_batches import decode_batch
from kvxray_backend.sources.foreign.token_chains import TokenChains
from kvxray_backend.sources.foreign.told import Cleared, Place, Removed, Spec, Stored

from tests.backend.foreign.payloads import eight

TEXTS = st.sampled_from(["adapter", "ünï/код", "0", " ", "\u202e", "x" * 512])
NUMBERS = st.integers(-(2**63), 2**64 - 1)
HASHES = st.one_of(NUMBERS, *(st.binary(min_size=width, max_size=width) for width in (8, 16, 32)))
STORED_ORDER = (
    *("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name", "extra_keys"),
    *("group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window"),
)
ORDERS = {"BlockStored": STORED_ORDER, "BlockRemoved": ("block_hashes", "medium", "group_idx"), "AllBlocksCleared": ()}


@dataclass
class Sent:
    """An event as an engine has it, and what must come out."""

    tag: str
    told: object
    fields: dict = field(default_factory=dict)

    def as_map(self, *, with_nils):
        return {"type": self.tag, **{k: v for k, v in self.fields.items() if with_nils or v is not None}}

    def as_array(self):
        return [self.tag, *(self.fields.get(name) for name in ORDERS[self.tag])]


def canonical(told):
    return told if isinstance(told, bytes) else eight(told)


@st.composite
def stores(draw):
    hashes = draw(st.lists(HASHES, max_size=6))
    block_size = draw(st.integers(1, 5))
    tokens = draw(
        st.one_of(
            st.lists(st.integers(0, 2**32 - 1), min_size=len(hashes) * block_size, max_size=len(hashes) * block_size),
            st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=8),
        )
    )
    parent, group = draw(st.none() | HASHES), draw(st.none() | st.integers(0, 9))
    medium, lora = draw(st.none() | st.sampled_from(["GPU", "CPU", "STORAGE"])), draw(st.none() | TEXTS)
    kind, window = (
        draw(st.none() | st.sampled_from(["mamba", "sliding_window"])),
        draw(st.none() | st.integers(0, 4096)),
    )
    told = Stored(
        tuple(map(canonical, hashes)),
        None if parent is None else canonical(parent),
        block_size,
        len(tokens),
        Place(medium or "", group or 0),
        Spec(kind or "", window or 0),
        lora=lora or "",
    )
    values = hashes, parent, tokens, block_size, None, medium, lora, None, group, kind, window
    return Sent("BlockStored", told, dict(zip(STORED_ORDER, values, strict=True)))


@st.composite
def removals(draw):
    hashes, group = draw(st.lists(HASHES, max_size=6)), draw(st.none() | st.integers(0, 9))
    told = Removed(tuple(map(canonical, hashes)), Place("CPU", group or 0), group is None)
    return Sent("BlockRemoved", told, {"block_hashes": hashes, "medium": "CPU", "group_idx": group})


EVENTS = st.lists(st.one_of(stores(), removals(), st.just(Sent("AllBlocksCleared", Cleared()))), max_size=5)


@given(EVENTS, st.data())
def test_each_event_in_either_shape_comes_out_as_it_was(events, data) -> None:
    written = [
        event.as_array() if data.draw(st.booleans()) else event.as_map(with_nils=data.draw(st.booleans()))
        for event in events
    ]
    ts, rank = data.draw(st.floats(0, 2e9)), data.draw(st.none() | st.integers(0, 63))
    batch = decode_batch(msgspec.msgpack.encode([ts, written, rank]))
    assert batch.events == tuple(event.told for event in events)
    assert (batch.ts, batch.rank) == (ts, rank)
    assert not batch.oddities


@given(EVENTS)
def test_what_is_looked_at_field_by_field_comes_out_as_what_is_decoded_in_one_go(events) -> None:
    maps = [event.as_map(with_nils=False) for event in events]
    at_once = decode_batch(msgspec.msgpack.encode([1.0, maps, 0]), TokenChains(b"key"))
    one_by_one = decode_batch(msgspec.msgpack.encode([1.0, maps, 0, "more"]), TokenChains(b"key"))
    odd = [{**event, "new": [1]} for event in maps]
    by_field = decode_batch(msgspec.msgpack.encode([1.0, odd, 0]), TokenChains(b"key"))
    assert at_once.events == one_by_one.events == by_field.events
    assert not at_once.oddities
    assert sum(by_field.oddities.unknown_fields.values()) == len(events)


@given(stores(), st.integers(1, 12))
def test_an_array_that_stops_early_is_a_map_with_fewer_fields(event, length) -> None:
    array = event.as_array()[: length + 1]
    names = STORED_ORDER[:length]
    fewer = {"type": event.tag, **{name: event.fields[name] for name in names}}
    assert (
        decode_batch(msgspec.msgpack.encode([1.0, [array]])).events
        == decode_batch(msgspec.msgpack.encode([1.0, [fewer]])).events
    )


@given(st.binary(max_size=200))
def test_bytes_by_chance_are_a_batch_or_refused(payload) -> None:
    try:
        batch = decode_batch(payload)
    except BadBatch:
        return
    assert isinstance(batch.events, tuple)
