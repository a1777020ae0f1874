"""What is remembered of the batches applied in one life of a publisher, and what by it can be told of another batch."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kvxray_backend.sources.foreign.batch_steps import Dated

KEPT_DIGESTS: Final = 10_000
# How long after a restart what the earlier life sent may still come.
STRAGGLERS_NS: Final = 60_000_000_000


class AppliedBatches:
    """Digests and times of the last 10,000 applied, by number. `highest`: the highest number ever, -1 before the first.
    `newest_ts`: the latest time told, None when none was.
    """

    def __init__(self) -> None:
        self.highest = -1
        self.newest_ts: float | None = None
        self._known: OrderedDict[int, tuple[bytes, float | None]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[int]:
        return iter(self._known)

    def get(self, seq: int) -> tuple[bytes, float | None] | None:
        """Digest and time."""
        return self._known.get(seq)

    def add(self, seq: int, batch: Dated) -> None:
        ts = batch.ts
        self._known[seq] = (batch.digest, ts)
        if len(self._known) > KEPT_DIGESTS:
            self._known.popitem(last=False)
        if seq > self.highest:
            self.highest = seq
        if ts is not None and (self.newest_ts is None or ts > self.newest_ts):
            self.newest_ts = ts

    def is_before(self, seq: int, ts: float | None, *, is_missing: bool) -> bool:
        """Whether a batch whose turn is over, and which was not applied or long ago, can be of this life; else it is of
        a new one. is_missing: it is known to have been left out.
        """
        # Behind the last one applied there is no later time to compare with.
        if ts is None or self.newest_ts is None or seq > self.highest:
            return seq > 0 or is_missing
        return ts <= self.newest_ts


@dataclass(frozen=True, slots=True)
class EarlierLife:
    """Tells batches of the life before a restart: by time, and only for a while, since clocks are set back too.
    `newest_ts`: its last one applied; the first of the new life was heard as (`seq`, `ts`).
    """

    newest_ts: float
    seq: int
    ts: float
    until_ns: int

    def told(self, seq: int, ts: float | None, now_ns: int) -> bool:
        if ts is None or now_ns >= self.until_ns:
            return False
        return ts <= self.newest_ts or (seq > self.seq and ts < self.ts)


def earlier_life(ended: AppliedBatches, seq: int, ts: float | None, now_ns: int) -> EarlierLife | None:
    """Of the life that ended when (`seq`, `ts`) was heard; None where the clock was set back, or tells nothing."""
    if ts is None or ended.newest_ts is None or ts <= ended.newest_ts:
        return None
    return EarlierLife(ended.newest_ts, seq, ts, now_ns + STRAGGLERS_NS)
