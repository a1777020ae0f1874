"""What is taken of one foreign payload at most, and the one error for a payload that is not taken at all.

Payloads come from whoever reaches our sockets and files. Sizes are checked where a list or a map declares them, before
anything is made of it, so that the memory a payload costs follows from its bytes and these numbers.
"""

from __future__ import annotations

from typing import Final

MAX_SEQ: Final = 1 << 42
"""Batches are numbered below it: their events, counted by the million a batch, fit 63 bits. None comes so far."""
MAX_PAYLOAD_BYTES: Final = 16 << 20
MAX_STRICT_BYTES: Final = 1 << 20
"""Up to here a payload is decoded in one go: at worst (hashes of one byte) it costs 66 times its size."""
MAX_EVENTS: Final = 100_000
"""Events of one batch. Engines send one for each evicted block, thousands in a busy step."""
MAX_HASHES: Final = 500_000
"""Hashes of one batch, parents not counted; events and hashes together stay below the 2^20 that number a batch's."""
MAX_FIELDS: Final = 64
"""Fields of one event; the longest known has 15."""
MAX_GROUP: Final = 65_535
MAX_BLOCK_SIZE: Final = 1 << 24
MAX_TEXT: Final = 512
"""Characters of a name, a salt or a session."""
MAX_KEYS_BYTES: Final = 64 << 10
"""What is looked into of one block's extra keys."""


class BadBatch(ValueError):
    """A payload that is no batch, or one too large to be taken; the text says in one sentence what is wrong with it."""


class BadEvent(ValueError):
    """One event that cannot be understood: it is counted, and the rest of its batch is kept."""
