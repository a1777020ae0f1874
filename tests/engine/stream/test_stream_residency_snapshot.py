"""A fold of hashes as bytes and back: whole, checked, and nothing of it believed."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kvxray_engine.stream.codec import BadMessage
from kvxray_engine.stream.residency_map import ResidencyMap
from kvxray_engine.stream.residency_snapshot import dump, load
from kvxray_engine.stream.schema import Name
from kvxray_engine.stream.snapshot import sealed

from tests.engine.stream.residency_teller import (
    CPU,
    DESCRIPTOR,
    GPU,
    Teller,
    clear,
    hash_of,
    placeholder,
    remove,
    store,
)


def a_fold() -> tuple[ResidencyMap, Teller]:
    fold, teller = ResidencyMap(DESCRIPTOR, store_semantics="reuse", known=False, generation_size=64), Teller()
    names = (Name("", "namespace", lora="adapter"),)
    fold.apply(teller.tell(store(1, 2, 3, tokens=12, req=0), placeholder(1, 2), names=names))
    fold.apply(teller.tell(store(2, parent=1), remove(3), store(9, parent=8), clear(1), store(5, place=CPU)))
    return fold, teller


def test_everything_comes_back_but_faults() -> None:
    fold, teller = a_fold()
    back = load(dump(fold))
    back.check_integrity()
    assert dump(back) == dump(fold)
    assert (back.source, back.next_seq, back.next_wire_seq) == ("engine", fold.next_seq, 2)
    assert (back.store_semantics, back.known, back.known_media[1]) == ("reuse", False, 1)
    assert back.residents(GPU).tolist() == [1, 2, 9]
    assert back.names.names[0].lora == "adapter"
    assert back.hash_bytes(3) == hash_of(3)
    assert back.take_faults() == []
    for one in (fold, back):
        one.apply(Teller(wire_seq=2, hashes=teller.hashes).tell(store(10, parent=3), remove(1)))
    fold.take_faults()
    assert dump(back) == dump(fold)


def test_an_empty_fold_comes_back() -> None:
    assert load(dump(ResidencyMap(DESCRIPTOR))).places() == []


def test_a_snapshot_of_another_fold_or_version_is_refused() -> None:
    data = bytearray(dump(a_fold()[0]))
    for changed in (b"KVXS" + data[4:], data[:4] + b"\x09" + data[5:], data[:40], b""):
        with pytest.raises(BadMessage):
            load(bytes(changed))


@given(at=st.integers(0, 10_000), bit=st.integers(0, 7))
@settings(max_examples=200, deadline=None)
def test_a_changed_bit_is_found(at: int, bit: int) -> None:
    data = bytearray(DATA)
    data[at % len(data)] ^= 1 << bit
    with pytest.raises(BadMessage, match=r"^[A-Z].*\.$"):
        load(bytes(data))


@given(at=st.integers(0, 10_000), byte=st.integers(0, 255))
@settings(max_examples=300, deadline=None)
def test_a_snapshot_with_a_right_sum_over_wrong_bytes_is_refused_or_in_order(at: int, byte: int) -> None:
    data = bytearray(DATA)
    at = 20 + at % (len(data) - 20)
    data[at] = byte
    changed = sealed(bytes(data[:16]), bytes(data[20:]))
    try:
        back = load(changed)
    except BadMessage:
        return
    back.check_integrity(with_hashes=False)


def test_sizes_that_claim_more_than_there_is_are_refused() -> None:
    data = DATA
    for head, columns in ((2**32 - 1, 1), (1, 2**32 - 1), (0, 0)):
        with pytest.raises(BadMessage):
            load(sealed(data[:8] + struct.pack("<II", head, columns), data[20:]))


DATA = dump(a_fold()[0])
