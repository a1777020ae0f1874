"""Which kind of recording a line is of, by its shape alone."""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Raw
from msgspec.json import Decoder

from kvxray_backend.sources.foreign.json_events import UNREADABLE
from kvxray_backend.sources.foreign.nesting import check_json

Format = Literal["frames", "replay", "dynamo", "trtllm", "cases"]

NAMES: Final[dict[Format, str]] = {
    "frames": "frames of a ZeroMQ stream",
    "replay": "answers of a replay socket",
    "dynamo": "events as Dynamo records them",
    "trtllm": "events as TensorRT-LLM gives them",
    "cases": "cases",
}
_KEYS: Final[tuple[tuple[Format, frozenset[str]], ...]] = (
    ("frames", frozenset(("seq", "payload_b64"))),
    ("replay", frozenset(("frames_b64",))),
    ("cases", frozenset(("id", "steps"))),
    ("trtllm", frozenset(("event_id", "data"))),
    ("dynamo", frozenset(("timestamp", "event"))),
)
_OBJECT: Final = Decoder(dict[str, Raw])


def format_of(text: bytes) -> Format | None:
    """None: it is a line of no recording that is known. A list is TensorRT-LLM's: nobody else writes them."""
    if text.lstrip()[:1] == b"[":
        return "trtllm"
    try:
        check_json(text)
        keys = _OBJECT.decode(text).keys()
    except UNREADABLE:
        return None
    return next((name for name, asked in _KEYS if asked <= keys), None)
