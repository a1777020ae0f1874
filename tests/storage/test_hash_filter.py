"""The filter of a chunk's hashes never hides one that is there, and seldom claims one that is not."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kvxray_storage.hash_filter import encode_hash_filter, is_of_hashes, may_tell


@given(st.sampled_from([8, 16, 32]), st.data())
def test_a_hash_that_is_there_is_never_hidden(width, data):
    hashes = data.draw(st.lists(st.binary(min_size=width, max_size=width), max_size=40))
    bits = encode_hash_filter(b"".join(hashes), width)
    assert all(may_tell(bits, one) for one in hashes)


@pytest.mark.parametrize("width", [8, 16, 32])
@pytest.mark.parametrize("kind", ["digests", "numbers in a row"])
def test_one_that_is_not_there_is_claimed_seldom_and_costs_ten_bits(width, kind):
    def made(number):
        return (
            hashlib.sha256(b"%d" % number).digest()[:width] if kind == "digests" else number.to_bytes(width, "little")
        )

    bits = encode_hash_filter(b"".join(made(number) for number in range(700)), width)
    assert len(bits) == 1 + 700 * 10 / 8
    claimed = sum(may_tell(bits, made(number)) for number in range(10_000, 20_000))
    assert claimed < 300


def older_filter(hashes):
    """As it was until schema 0006: 2^log2 bits, the upper bits of four products."""
    log2 = max((len(hashes) * 10 - 1).bit_length(), 3)
    bitmap = bytearray((1 << log2) // 8)
    for one in hashes:
        first, last = int.from_bytes(one[:8], "little"), int.from_bytes(one[-8:], "little")
        for factor in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93):
            place = (first ^ last >> 29) * factor % 2**64 >> 64 - log2
            bitmap[place // 8] |= 1 << place % 8
    return bytes([log2]) + bytes(bitmap)


def test_filters_of_an_older_kvxray_are_read_and_told_from_others():
    hashes = [hashlib.sha256(b"%d" % number).digest() for number in range(300)]
    bits = older_filter(hashes)
    assert all(may_tell(bits, one) for one in hashes)
    assert not all(may_tell(bits, hashlib.sha256(b"other %d" % number).digest()) for number in range(100))
    for wrote in (bits, encode_hash_filter(b"".join(hashes), 32)):
        assert is_of_hashes(wrote, b"".join(hashes), 32)
        assert not is_of_hashes(wrote, b"".join(hashes[1:]), 32)
        for at in range(0, len(wrote) * 8, 7):
            flipped = bytearray(wrote)
            flipped[at // 8] ^= 1 << at % 8
            assert not is_of_hashes(bytes(flipped), b"".join(hashes), 32)


def test_no_hashes_have_no_filter_and_a_chunk_without_one_may_tell_any():
    assert encode_hash_filter(b"", 32) == b""
    assert not may_tell(b"", bytes(32))
    assert may_tell(None, bytes(32))


@pytest.mark.parametrize("bits", [b"\x00", b"\x03", b"\xff" * 20, b"\x0a" + bytes(3)])
def test_damaged_filters_hide_nothing(bits):
    assert may_tell(bits, bytes(32))
