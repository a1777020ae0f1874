"""Block hashes: a chain of sha256 over canonical CBOR, bit-identical with vLLM's `sha256_cbor`.

A block's hash covers its parent's hash, its token ids and its extra keys (LoRA adapter, cache salt), so that equal
hashes mean equal prefixes under equal conditions. This file knows no blocks and no requests. CBOR is written here in
the few forms hashing needs (RFC 8949, section 4.2: shortest heads, definite lengths), which costs less than a
dependency.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

BlockHash = bytes
"""32 bytes. Opaque outside the engine."""

ExtraKeys = tuple[tuple[str, ...], ...]
"""Tagged tuples in vLLM's order: `("lora", name, path)` then `("cache_salt", salt)`. Tags keep a LoRA name from
colliding with a salt of the same text."""

CborValue = int | bytes | str | None | Sequence["CborValue"]

_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _ARRAY = 0x00, 0x20, 0x40, 0x60, 0x80
_NULL = b"\xf6"


def encode_cbor(value: CborValue) -> bytes:
    """Canonical CBOR of None, ints of up to 64 bits, bytes, text, and lists or tuples of those."""
    if value is None:
        return _NULL
    if isinstance(value, int):
        return _head(_UNSIGNED, value) if value >= 0 else _head(_NEGATIVE, -1 - value)
    if isinstance(value, bytes):
        return _head(_BYTES, len(value)) + value
    if isinstance(value, str):
        text = value.encode()
        return _head(_TEXT, len(text)) + text
    return _head(_ARRAY, len(value)) + b"".join(map(encode_cbor, value))


def _head(major: int, argument: int) -> bytes:
    """Major type and argument in the shortest form, as canonical CBOR demands."""
    if argument < 24:
        return bytes((major | argument,))
    for size_code, width in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if argument < 1 << (8 * width):
            return bytes((major | size_code,)) + argument.to_bytes(width, "big")
    raise AssertionError("canonical CBOR integers end at 64 bits")


NONE_HASH: BlockHash = sha256(encode_cbor("vllm-none-hash")).digest()
"""What stands for the parent of a first block: the same in every process, as in vLLM from 0.33."""


def extra_keys(lora_name: str, lora_path: str, cache_salt: str, first_block: bool) -> ExtraKeys | None:
    """What besides tokens decides whether a block may be shared. Empty text = none.

    The adapter marks every block; the salt marks only the first one, since chaining carries it on.
    """
    keys: list[tuple[str, ...]] = []
    if lora_name:
        keys.append(("lora", lora_name, lora_path))
    if cache_salt and first_block:
        keys.append(("cache_salt", cache_salt))
    return tuple(keys) or None


class _EncodedTokens(dict[int, bytes]):
    """CBOR of each token id met so far: at most a vocabulary's worth, and the whole speed of hashing."""

    def __missing__(self, token_id: int) -> bytes:
        encoded = self[token_id] = encode_cbor(token_id)
        return encoded


_encoded_tokens = _EncodedTokens()
_THREE_ITEMS = _head(_ARRAY, 3)
_HASH_HEAD = _head(_BYTES, sha256().digest_size)


def hash_block(parent: BlockHash, token_ids: Sequence[int], keys: ExtraKeys | None = None) -> BlockHash:
    """Hash of one full block: sha256 of CBOR `[parent, [token ids], extra keys or null]`; the first block's parent is
    `NONE_HASH`."""
    tokens = b"".join(map(_encoded_tokens.__getitem__, token_ids))
    return sha256(
        _THREE_ITEMS + _HASH_HEAD + parent + _head(_ARRAY, len(token_ids)) + tokens + encode_cbor(keys)
    ).digest()
