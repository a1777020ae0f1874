"""Frames of all blocks for HTTP, the snapshot, the details and the order: made only so often and compressed once for
everybody who asks.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

import zstandard

from kvxray_backend.live_state import LiveState

MAX_AGE_S: Final = 0.25
Encoding = Literal["zstd", "gzip", "identity"]
Make = Callable[[LiveState], tuple[float, bytes] | None]
"""`picture_seq` and the frame of a state; None before its source was joined."""


@dataclass(slots=True)
class CachedSnapshot:
    """One frame and its compressed forms, made when first asked for."""

    epoch: int
    picture_seq: float
    made_at: float
    forms: dict[str, bytes] = field(default_factory=dict)

    def etag(self, encoding: Encoding) -> str:
        return f'"{self.epoch}-{self.picture_seq!r}-{encoding}"'


class SnapshotCache:
    """Frames of one source that `make` makes. Used from the event loop."""

    def __init__(self, live: LiveState, make: Make = LiveState.snapshot_frame, max_age_s: float = MAX_AGE_S) -> None:
        self._live = live
        self._make_frame = make
        self._max_age_s = max_age_s
        self._cached: CachedSnapshot | None = None
        self._making = asyncio.Lock()

    async def get(self, encoding: Encoding, not_before: float) -> tuple[CachedSnapshot, bytes] | None:
        """The snapshot and its bytes; None before the source was joined.

        not_before: the `picture_seq` that a viewer's deltas begin at; an older snapshot would leave a hole before them.
        """
        async with self._making:
            cached = self._cached
            if cached is None or not self._is_good(cached, not_before):
                cached = self._cached = await asyncio.to_thread(self._make)
            if cached is None:
                return None
            if encoding not in cached.forms:
                cached.forms[encoding] = await asyncio.to_thread(compress, cached.forms["identity"], encoding)
            return cached, cached.forms[encoding]

    def _is_good(self, cached: CachedSnapshot, not_before: float) -> bool:
        return (
            cached.epoch == self._live.epoch
            and cached.picture_seq >= not_before
            and time.monotonic() - cached.made_at < self._max_age_s
        )

    def _make(self) -> CachedSnapshot | None:
        # Not under the lock, which would hold up whoever follows the engine: frames lock for as long as they copy. Read
        # first, the epoch of a frame made while another begins is never good again.
        epoch = self._live.epoch
        made = self._make_frame(self._live)
        if made is None:
            return None
        return CachedSnapshot(epoch or 0, made[0], time.monotonic(), {"identity": made[1]})


def snapshot_of(
    past: LiveState, encoding: Encoding, make: Make = LiveState.snapshot_frame
) -> tuple[CachedSnapshot, bytes] | None:
    """The frame of a past moment, which changes no more."""
    made = make(past)
    if made is None:
        return None
    snapshot = CachedSnapshot(past.epoch or 0, made[0], 0.0, {"identity": made[1]})
    return snapshot, compress(made[1], encoding)


def choose_encoding(accepted: str) -> Encoding:
    """The best form that an Accept-Encoding header allows."""
    offers = {}
    for offer in accepted.lower().split(","):
        name, _, parameters = offer.partition(";")
        offers[name.strip()] = parameters.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    if offers.get("zstd"):
        return "zstd"
    return "gzip" if offers.get("gzip") else "identity"


def compress(data: bytes, encoding: Encoding) -> bytes:
    """Fast levels: a snapshot is made for the moment (measured: 1 million blocks in 7 ms by zstd, 67 ms by gzip)."""
    match encoding:
        case "zstd":
            return zstandard.ZstdCompressor(level=1).compress(data)
        case "gzip":
            packer = zlib.compressobj(1, wbits=31)
            return packer.compress(data) + packer.flush()
        case "identity":
            return data
