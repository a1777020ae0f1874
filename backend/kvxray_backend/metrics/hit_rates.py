"""Hit rates with their denominators: of the device, of what lies beyond it, of the multimodal cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from kvxray_backend.metrics.ratio import Ratio
from kvxray_backend.metrics.telling import Telling

Cache = Literal["prefix", "external", "multimodal"]
_COUNTED_BY: Final[Mapping[Cache, tuple[str, str]]] = {
    "prefix": ("prefix_hits", "prefix_queries"),
    "external": ("external_prefix_hits", "external_prefix_queries"),
    "multimodal": ("multimodal_hits", "multimodal_queries"),
}


def hit_rate(book: Telling, cache: Cache, window_s: float | None) -> Ratio | None:
    """In tokens (multimodal: pieces; TensorRT-LLM where it does not tell its block size: blocks). window None: since
    the engines started. None: nothing was asked, or nothing is counted; the engine's own gauge is never taken for it.
    """
    found = book.ratio(*_COUNTED_BY[cache], window_s)
    if found is not None or cache != "prefix":
        return found
    return _of_blocks(book, window_s)


def _of_blocks(book: Telling, window_s: float | None) -> Ratio | None:
    if window_s is None:
        reused, missed, seconds = book.value("reused_blocks"), book.value("missed_blocks"), None
    else:
        more, less = book.grown("reused_blocks", window_s), book.grown("missed_blocks", window_s)
        reused, missed = more.amount if more else None, less.amount if less else None
        seconds = more.seconds if more else None
    if reused is None or missed is None or reused + missed <= 0:
        return None
    return Ratio(reused / (reused + missed), reused, reused + missed, seconds)
