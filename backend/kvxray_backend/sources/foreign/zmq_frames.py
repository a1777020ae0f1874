"""Frames of foreign publishers: what is heard live, what replay answers. Told by shape, never by version; pure.

    live     TOPIC SEQ PAYLOAD
    replay   "" SEQ PAYLOAD, ended by "" -1 ""                   (vLLM up to 0.24 at least)
             "" TOPIC SEQ PAYLOAD, ended by "" "" -1 ""          (vLLM from 0.26 at the latest, SGLang, TensorRT-LLM)

SEQ is 8 bytes, big-endian, unsigned. The empty delimiter before a reply may be missing: some sockets take it away.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from kvxray_backend.sources.foreign.caps import MAX_PAYLOAD_BYTES, MAX_SEQ

MAX_TOPIC_BYTES: Final = 1024
MAX_FRAMES: Final = 4
END_SEQ: Final = (1 << 64) - 1
_SEQ: Final = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class Told:
    """One batch, still packed. topic None: the reply did not say."""

    topic: bytes | None
    seq: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class End:
    """The answer to one replay request is complete."""


class BadFrames(ValueError):
    """Frames that no publisher sends; the message says what is wrong with them."""


def replay_request(start: int) -> list[bytes]:
    """What a DEALER sends to have everything from `start` on again."""
    return [b"", _SEQ.pack(start)]


def read_live(frames: list[bytes]) -> Told:
    """Raises `BadFrames`."""
    if len(frames) != 3:
        raise BadFrames(f"A batch has 3 frames, not {len(frames)}.")
    told = _told(frames[0], frames[1], frames[2])
    if told.seq == END_SEQ:
        raise BadFrames("A batch has the number that ends a replay.")
    return _in_range(told)


def read_reply(frames: list[bytes]) -> Told | End:
    """Raises `BadFrames`."""
    match frames:
        case [topic, seq, payload] if topic:
            told = _told(topic, seq, payload)
        case [seq, payload] | [b"", seq, payload]:
            told = _told(None, seq, payload)
        case [b"", topic, seq, payload]:
            told = _told(topic, seq, payload)
        case _:
            raise BadFrames(f"An answer of the replay socket has {len(frames)} frames of a shape that is not known.")
    return End() if told.seq == END_SEQ else _in_range(told)


def _in_range(told: Told) -> Told:
    if told.seq >= MAX_SEQ:
        raise BadFrames("A batch has a number that no engine comes to.")
    return told


def _told(topic: bytes | None, seq: bytes, payload: bytes) -> Told:
    if topic is not None and len(topic) > MAX_TOPIC_BYTES:
        raise BadFrames(f"A topic has {len(topic)} bytes; at most {MAX_TOPIC_BYTES} are read.")
    if len(seq) != _SEQ.size:
        raise BadFrames(f"The number of a batch has {len(seq)} bytes, not {_SEQ.size}.")
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise BadFrames(f"A batch has {len(payload)} bytes; at most {MAX_PAYLOAD_BYTES} are read.")
    return Told(topic, int(_SEQ.unpack(seq)[0]), payload)
