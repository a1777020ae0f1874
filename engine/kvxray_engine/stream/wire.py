"""The frames on the sockets between a publisher and its subscribers.

Events (PUB): [source, payload]. Replay and snapshots (ROUTER, asked by a DEALER): an empty delimiter, then

    request   replay FIRST LAST      reply   message WIRE_SEQ PAYLOAD, one for each still held, then `end`
    request   snapshot               reply   snapshot DATA, or `not ready` until the state is whole again

Numbers are 8 bytes, big-endian, signed.
"""

from __future__ import annotations

import struct
from typing import Final

REPLAY: Final = b"replay"
SNAPSHOT: Final = b"snapshot"
MESSAGE: Final = b"message"
END: Final = b"end"
NOT_READY: Final = b"not ready"

_NUMBER: Final = struct.Struct(">q")


def pack_number(number: int) -> bytes:
    return _NUMBER.pack(number)


def unpack_number(frame: bytes) -> int | None:
    """None when the frame is not a number."""
    return int(_NUMBER.unpack(frame)[0]) if len(frame) == _NUMBER.size else None
