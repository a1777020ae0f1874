"""Sums over the last seconds of event time, from totals that only grow. Pure: time comes from the events."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, fields
from typing import Final, Self

from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.schema import Kind

from kvxray_backend.engine_clock import SET_BACK_NS

RATE_WINDOW_NS: Final = 10_000_000_000
HIT_WINDOW_NS: Final = 60_000_000_000

QUARTER_NS: Final = 250_000_000
# Shorter than this nothing can be called a rate.
_MIN_SPAN_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class EventTotals:
    """Counts since the epoch began, as the fold has them."""

    evictions: int
    allocations: int
    preemptions: int
    tokens: int
    queried: int
    hit: int

    @classmethod
    def of(cls, block_map: BlockMap) -> Self:
        kinds = block_map.kind_totals
        return cls(
            evictions=int(kinds[Kind.BlockEvicted]),
            allocations=int(kinds[Kind.BlockAllocated]),
            preemptions=int(kinds[Kind.RequestPreempted]),
            tokens=block_map.generated_tokens,
            queried=block_map.queried_tokens,
            hit=block_map.hit_tokens,
        )

    def minus(self, earlier: Self) -> Self:
        return type(self)(*(getattr(self, f.name) - getattr(earlier, f.name) for f in fields(self)))


class EventWindows:
    """Samples of the totals, the last of each quarter of a second, newest last; a minute and a little of them.

    Their times never go back: where the engine's clock was set back, by `_behind_ns` in all, they go on as if it had
    not been.
    """

    def __init__(self, sample_every_ns: int = QUARTER_NS) -> None:
        """sample_every_ns: one that is told of longer stretches counts each of them whole."""
        self._sample_every_ns = sample_every_ns
        self._samples: deque[tuple[int, EventTotals]] = deque()
        self._watched_from_ns = 0
        self._behind_ns = 0
        self._event_ns = 0

    def clear(self) -> None:
        """A new epoch: nothing before it counts."""
        self._samples.clear()
        self._behind_ns = self._event_ns = 0

    @property
    def watched_from_ns(self) -> int | None:
        """Since when, by the clock of the engine as it is now; None where nothing was told yet."""
        return self._watched_from_ns - self._behind_ns if self._samples else None

    def note(self, t_ns: int, totals: EventTotals) -> None:
        """The totals as they were at the time `t_ns` of an event. Events come in order."""
        if self._samples and t_ns < self._event_ns - SET_BACK_NS:
            self._behind_ns = self._samples[-1][0] - t_ns
        self._event_ns = t_ns
        self.hear(t_ns, totals)

    def hear(self, t_ns: int, totals: EventTotals) -> None:
        """The totals as they were when the engine was heard, which may be before what it had told is known."""
        samples = self._samples
        t_ns += self._behind_ns
        if not samples:
            self._watched_from_ns = t_ns
        else:
            # Clocks of engine and heartbeats may cross by a hair; the totals count all the same.
            t_ns = max(t_ns, samples[-1][0])
        if len(samples) > 1 and t_ns // self._sample_every_ns == samples[-1][0] // self._sample_every_ns:
            samples[-1] = (t_ns, totals)
        else:
            samples.append((t_ns, totals))
        # The newest sample older than the longest window stays: it is that window's beginning.
        while len(samples) > 1 and samples[1][0] <= t_ns - HIT_WINDOW_NS:
            samples.popleft()

    def since(self, window_ns: int, now_ns: int) -> tuple[EventTotals, float] | None:
        """What the last `window_ns` before `now_ns` added, and how many seconds of them were watched; None when too
        few.
        """
        if not self._samples:
            return None
        if self._behind_ns:
            # What is now by a clock that was set back, the newest sample tells.
            now_ns = self._samples[-1][0]
        begin, since_ns = self._samples[0], now_ns - window_ns
        for sample in self._samples:
            if sample[0] > now_ns - window_ns:
                # It counts all of its quarter second, which may begin a little before the window.
                stretch_ns = sample[0] // self._sample_every_ns * self._sample_every_ns
                since_ns = min(since_ns, max(begin[0], stretch_ns))
                break
            begin = sample
        span_ns = now_ns - max(since_ns, self._watched_from_ns)
        if span_ns < _MIN_SPAN_NS:
            return None
        return self._samples[-1][1].minus(begin[1]), span_ns / 1e9

    def check_integrity(self) -> None:
        """Asserts that samples are in order and bounded."""
        times = [t_ns for t_ns, _ in self._samples]
        assert times == sorted(times), "samples are out of order"
        assert len(times) <= HIT_WINDOW_NS // self._sample_every_ns + 3, "samples pile up"
