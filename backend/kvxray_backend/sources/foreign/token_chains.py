"""Keyed digests in place of tokens: what lets two engines be compared without keeping what anybody wrote.

The digest of a block is BLAKE2b with the database's key, 16 bytes, over the digest of its parent, its own tokens, and
the extra keys its engine told for it. That of a root starts from its adapter and salt; where the parent's digest is not
remembered any more (or was never told) the parent's hash stands for it. So

- equal digests mean: the same tokens, after the same tokens back to the root or to one and the same parent hash, under
  the same keys as far as they were told. Two engines that give such a block different hashes hash with different seeds
  (or algorithms): that is the proof of a seed mismatch. An engine that does not tell salts (vLLM before 0.24) may have
  several hashes for one digest by itself; whoever compares looks at that first.
- different digests mean nothing: one of the two chains may begin in the middle.

How a chain was cut into events does not matter. Nothing of it can be turned back into tokens without the key.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import blake2b
from itertools import chain
from typing import Final

from kvxray_backend.sources.foreign.msgpack_parts import NIL, Value
from kvxray_backend.sources.foreign.told import Hash

Tokens = Sequence[int] | Sequence[tuple[int, int]]

DIGEST_SIZE: Final = 16
MAX_REMEMBERED: Final = 131_072
"""Blocks whose digests are remembered, so that what is stored after them goes on from there: at most 20 MB."""
_MAX_KEY_BYTES: Final = 64
_TAIL: Final = struct.Struct("<IB")


class TokenChains:
    """The digests of one source: remembers those of the blocks stored last, whose children come in later events."""

    def __init__(self, key: bytes, max_remembered: int = MAX_REMEMBERED) -> None:
        """`key`: any length; of more than 64 bytes the digest, as for every other name that is kept as one."""
        key = key if len(key) <= _MAX_KEY_BYTES else blake2b(key).digest()
        self._keyed = blake2b(key=key, digest_size=DIGEST_SIZE)
        self._half = max(1, max_remembered // 2)
        # Two generations: when the young one is full it becomes the old one, and that is forgotten as a whole.
        self._young: dict[Hash, bytes] = {}
        self._old: dict[Hash, bytes] = {}

    def of_blocks(
        self,
        hashes: Sequence[Hash],
        parent: Hash | None,
        tokens: Tokens,
        block_size: int,
        keys: Sequence[Value] = (),
        namespace: tuple[str, str] = ("", ""),
    ) -> tuple[bytes, ...]:
        """A digest for each block; none at all where the tokens are not those of these blocks, are no token ids, or are
        all zero.

        `keys`: extra keys of each block as sent, or empty; `namespace`: adapter and salt, which count for a root.
        """
        if block_size <= 0 or -(-len(tokens) // block_size) != len(hashes):
            return ()
        width = 2 if tokens and isinstance(tokens[0], (tuple, list)) else 1
        try:
            packed = _packed(tokens, width)
        except (struct.error, TypeError):
            return ()
        if not packed.strip(b"\0"):
            return ()  # recordings have zeros in the place of tokens, which prove nothing
        digests = self._chained(self._start(parent, namespace), packed, block_size * width * 4, keys, width)
        self._remember(hashes, digests)
        return digests

    def of_told_digests(self, hashes: Sequence[Hash], parent: Hash | None, told: Sequence[bytes]) -> tuple[bytes, ...]:
        """The same for an engine that tells digests of its own instead of tokens: one for each block, all as long."""
        digests = self._chained(self._start(parent, ("", "")), b"".join(told), len(told[0]), (), 0) if told else ()
        self._remember(hashes, digests)
        return digests

    def _start(self, parent: Hash | None, namespace: tuple[str, str]) -> bytes:
        if parent is None:
            lora, salt = (text.encode("utf-8", "surrogatepass") for text in namespace)
            return self._digest(b"root" + len(lora).to_bytes(4, "little") + lora + salt)
        return self._young.get(parent) or self._old.get(parent) or self._digest(b"hash" + parent)

    def _digest(self, data: bytes) -> bytes:
        hasher = self._keyed.copy()
        hasher.update(data)
        return hasher.digest()

    def _chained(self, last: bytes, packed: bytes, size: int, keys: Sequence[Value], width: int) -> tuple[bytes, ...]:
        keyed, digests = self._keyed, []
        tail = _TAIL.pack(0, width)
        for index, at in enumerate(range(0, len(packed), size)):
            # The length of the keys comes last: no other split of the same bytes reads the same.
            told = b"" if not keys or bytes(keys[index]) == NIL else bytes(keys[index])
            end = told + _TAIL.pack(len(told), width) if told else tail
            hasher = keyed.copy()
            hasher.update(last + packed[at : at + size] + end)
            last = hasher.digest()
            digests.append(last)
        return tuple(digests)

    def _remember(self, hashes: Sequence[Hash], digests: Sequence[bytes]) -> None:
        self._young.update(zip(hashes, digests, strict=False))
        if len(self._young) >= self._half:
            self._old, self._young = self._young, {}


def _packed(tokens: Tokens, width: int) -> bytes:
    flat = chain.from_iterable(tokens) if width == 2 else tokens  # type: ignore[arg-type]
    return struct.pack(f"<{len(tokens) * width}I", *flat)
