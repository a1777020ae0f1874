"""What a source may be called: in addresses, on the page, and in the names of its ranks."""

from __future__ import annotations

import re
from typing import Final

MAX_NAME: Final = 63
NAME_RULE: Final = "up to 63 letters, digits, dots, dashes and underscores, the first a letter or a digit"

_SOURCE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def is_source_name(text: str) -> bool:
    return _SOURCE_NAME.fullmatch(text) is not None


def engine_of(source: str) -> str:
    """The engine that a source is a rank of: `NAME/RANK` is of NAME, every other name is its own."""
    return source.partition("/")[0]


def as_source_name(text: str) -> str:
    """The nearest that may be a name, the same for the same text; empty where nothing is left of it."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("._-")[:MAX_NAME].rstrip("._-")
