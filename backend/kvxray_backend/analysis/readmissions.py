"""Eviction regret: hashes that an engine throws away and stores again soon after, which it computed twice for nothing.

One hash that comes back is the price of a cache that is full. One that comes back twice within a minute shows that what
is in use does not fit: the cache thrashes. Time is that of the events; knows no clock.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from kvxray_engine.stream.key_index import U8
from kvxray_engine.stream.residency_descriptor import medium_of
from kvxray_engine.stream.residency_returns import ReturnBook
from kvxray_engine.stream.residency_state import ResidencyState

from kvxray_backend.analysis.finding import MAX_SUBJECTS, Finding, Severity, Subjects
from kvxray_backend.analysis.stream_health import Place
from kvxray_backend.quantities import counted

WINDOW_NS: Final = 60_000_000_000
THRASH_FROM: Final = 2
MAX_KEPT: Final = 1 << 18
"""Returns of the window that are looked at: the latest."""
WORTH_A_WARNING: Final = 0.3
"""Returns an eviction. Below it something was thrown away too early now and then; above it three of ten evictions were
for nothing.
"""
_SAMPLE_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class _Sample:
    """How much was evicted and came back up to then."""

    t_ns: int
    evicted: int
    returned: int


class Readmissions:
    """Of one epoch. `num`: how often anything came back, whenever it was."""

    def __init__(self) -> None:
        self.num = 0
        self._keys: U8 = np.zeros(0, np.uint64)
        self._came_ns = np.zeros(0, np.int64)
        self._samples: deque[_Sample] = deque([_Sample(0, 0, 0)])

    def note(self, book: ReturnBook, now_ns: int) -> None:
        """Takes what has come back since the last call. now_ns: of the last event."""
        self.num = book.returned
        found = book.take()
        soon = found.came_ns - found.gone_ns <= WINDOW_NS
        if soon.any():
            self._keys = np.concatenate([self._keys, found.keys[soon]])[-MAX_KEPT:]
            self._came_ns = np.concatenate([self._came_ns, found.came_ns[soon]])[-MAX_KEPT:]
        self._sample(_Sample(now_ns, book.evicted, book.returned))

    def thrashing(self, now_ns: int) -> U8:
        """Keys (ordinal << 16 | place) of what came back so often within the last minute, each soon after it went."""
        recent = self._came_ns > now_ns - WINDOW_NS
        self._keys, self._came_ns = self._keys[recent], self._came_ns[recent]
        keys, times = np.unique(self._keys, return_counts=True)
        found: U8 = keys[times >= THRASH_FROM]
        return found

    def of_last_minute(self) -> tuple[int, int]:
        """How often a hash was evicted, and how often one came back."""
        first, last = self._samples[0], self._samples[-1]
        return last.evicted - first.evicted, last.returned - first.returned

    def check_integrity(self) -> None:
        """Asserts that it is bounded, and that samples are in order."""
        assert len(self._keys) == len(self._came_ns) <= MAX_KEPT, "too much is remembered"
        assert len(self._samples) <= WINDOW_NS // _SAMPLE_NS + 3, "there are too many samples"
        times = [sample.t_ns for sample in self._samples]
        assert times == sorted(times), "the samples are out of order"

    def _sample(self, sample: _Sample) -> None:
        """The last of each second is kept, and the last before the window. What comes late is of the newest time."""
        samples = self._samples
        t_ns = max(sample.t_ns, samples[-1].t_ns)
        if len(samples) > 1 and t_ns // _SAMPLE_NS == samples[-1].t_ns // _SAMPLE_NS:
            samples.pop()
        samples.append(replace(sample, t_ns=t_ns))
        while len(samples) > 2 and samples[1].t_ns <= t_ns - WINDOW_NS:
            samples.popleft()


def thrash_finding(place: Place, fold: ResidencyState, readmissions: Readmissions, now_ns: int = 0) -> Finding | None:
    """Open while anything comes back again and again. now_ns: by the clock of the events, where that is later than the
    last of them: an engine that has fallen silent does not thrash.
    """
    keys = readmissions.thrashing(max(now_ns, place.t_ns))
    if not len(keys):
        return None
    evicted, returned = readmissions.of_last_minute()
    digits = [data.hex() for key in keys[:MAX_SUBJECTS].tolist() if (data := fold.hash_bytes(key >> 16)) is not None]
    is_much = evicted > 0 and returned >= WORTH_A_WARNING * evicted
    severity: Severity = "warning" if is_much else "info"
    media = sorted({fold.descriptor.pools[medium_of(key & 0xFFFF)].name for key in keys.tolist()})
    num = len(keys)
    what = f"{counted(num, 'block')} on {' and '.join(media)} {'was' if num == 1 else 'were each'}"
    return place.finding(
        "thrash",
        severity,
        f"{what} evicted and stored again twice or more within a minute; in that time {counted(evicted, 'block')} "
        f"went and {returned:,} came back.",
        subjects=Subjects(hashes=tuple(dict.fromkeys(digits))),
        numbers={"blocks": num, "readmissions": returned, "evictions": evicted},
        certainty="exact" if fold.known else "derived",
        mark="Blocks are evicted and stored again within a minute, again and again.",
        sentence_when_over="Blocks were evicted and stored again, again and again, for {lasted}.",
        sentence_when_engine_ended="Blocks were evicted and stored again, again and again, until the engine ended.",
    )
