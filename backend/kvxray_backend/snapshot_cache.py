"""The snapshot of all blocks for HTTP: made at most four times a second and compressed once for everybody who asks."""

from __future__ import annotations

import asyncio
import time
import zlib
from dataclasses import dataclass, field
from typing import Final, Literal

import zstandard

from kvxray_backend.live_state import LiveState

MAX_AGE_S: Final = 0.25
Encoding = Literal["zstd", "gzip", "identity"]


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
    """Snapshots of one source. Used from the event loop."""

    def __init__(self, live: LiveState) -> None:
        self._live = live
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
            and time.monotonic() - cached.made_at < MAX_AGE_S
        )

    def _make(self) -> CachedSnapshot | None:
        with self._live.lock:
            made, epoch = self._live.snapshot_frame(), self._live.epoch
        if made is None:
            return None
        return CachedSnapshot(epoch or 0, made[0], time.monotonic(), {"identity": made[1]})


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
