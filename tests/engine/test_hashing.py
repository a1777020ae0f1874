"""Block hashes: the chain, the CBOR below it, and vLLM's own results."""

import json
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kvxray_engine.hashing import NONE_HASH, encode_cbor, extra_keys, hash_block

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "vllm_hash_vectors.json").read_text())["vectors"]
CBOR_VECTORS = [vector for vector in VECTORS if vector["algo"] == "sha256_cbor"]


@pytest.mark.parametrize("vector", CBOR_VECTORS, ids=lambda vector: vector["case"])
def test_hashes_are_those_of_vllm(vector: dict) -> None:
    assert NONE_HASH.hex() == vector["none_hash"]
    size, parent, hashes = vector["block_size"], NONE_HASH, []
    for index in range(len(vector["token_ids"]) // size):
        keys = extra_keys(
            vector["lora_name"] or "", vector["lora_path"] or "", vector["cache_salt"] or "", first_block=index == 0
        )
        parent = hash_block(parent, vector["token_ids"][index * size : (index + 1) * size], keys)
        hashes.append(parent)
    assert [block_hash.hex() for block_hash in hashes] == vector["block_hashes_hex"]
    # vLLM's events may carry a hash as an int: its last 8 bytes.
    assert [int.from_bytes(block_hash[-8:], "big") for block_hash in hashes] == vector["external_int"]


@pytest.mark.parametrize(
    ("value", "encoded"),
    # The examples of RFC 8949, appendix A.
    [
        (0, "00"),
        (23, "17"),
        (24, "1818"),
        (100, "1864"),
        (1000, "1903e8"),
        (1_000_000, "1a000f4240"),
        (1_000_000_000_000, "1b000000e8d4a51000"),
        (18_446_744_073_709_551_615, "1bffffffffffffffff"),
        (-1, "20"),
        (-100, "3863"),
        (None, "f6"),
        (b"", "40"),
        (b"\x01\x02\x03\x04", "4401020304"),
        ("", "60"),
        ("IETF", "6449455446"),
        ("\u6c34", "63e6b0b4"),
        ((), "80"),
        ([1, [2, 3], [4, 5]], "8301820203820405"),
        (tuple(range(1, 26)), "98190102030405060708090a0b0c0d0e0f101112131415161718181819"),
    ],
)
def test_cbor_is_the_standards(value: object, encoded: str) -> None:
    assert encode_cbor(value).hex() == encoded


@given(st.lists(st.integers(0, 200_000), max_size=40), st.binary(min_size=32, max_size=32))
def test_the_fast_path_hashes_what_the_plain_encoder_writes(tokens: list[int], parent: bytes) -> None:
    keys = (("lora", "adapter", "/path"), ("cache_salt", "tenant"))
    assert hash_block(parent, tokens, keys) == sha256(encode_cbor((parent, tokens, keys))).digest()
    assert hash_block(parent, tokens) == sha256(encode_cbor((parent, tokens, None))).digest()


def test_a_lora_name_never_collides_with_a_salt_of_the_same_text() -> None:
    lora = hash_block(NONE_HASH, [1, 2], extra_keys("same", "", "", first_block=True))
    salt = hash_block(NONE_HASH, [1, 2], extra_keys("", "", "same", first_block=True))
    assert lora != salt != hash_block(NONE_HASH, [1, 2])


def test_the_salt_marks_the_first_block_and_the_adapter_all() -> None:
    assert extra_keys("", "", "tenant", first_block=False) is None
    assert extra_keys("adapter", "/p", "tenant", first_block=False) == (("lora", "adapter", "/p"),)
    assert extra_keys("adapter", "/p", "tenant", first_block=True) == (
        ("lora", "adapter", "/p"),
        ("cache_salt", "tenant"),
    )
