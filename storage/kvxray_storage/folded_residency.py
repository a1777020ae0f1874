"""The writer's fold of an engine that tells of hashes only: its state, what it counts, and its gauges. Pure.

It has the bytes of its hashes, and its keyframes those of the hashes that are somewhere: a hash is nothing but its
bytes, and they must outlive the chunk that told them. So that keyframes stay a part of what is stored, they are the
rarer the more they hold, as far as going back in time does not take too long.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from kvxray_engine.stream import residency_snapshot
from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.event_times import timing_of
from kvxray_engine.stream.residency_map import ResidencyMap

from kvxray_storage.chunk_rollup import add_events
from kvxray_storage.rollup_book import NOT_KNOWN, NS, RollupBook
from kvxray_storage.rollup_columns import GAUGES
from kvxray_storage.state_kinds import RESIDENCY

_EVENTS_OF_ENTRY: Final = 4
_LONGEST_WAY: Final = 1 << 19
"""Events: half a second of folding (measured)."""
_GPU: Final = "GPU"


class FoldedResidency:
    kind: Final = RESIDENCY
    is_whole: Final = True
    """Nothing is timed over several messages."""

    def __init__(self, state: ResidencyMap) -> None:
        self.state = state

    @property
    def least_interval(self) -> int:
        """Events between two keyframes, at least."""
        return min(_EVENTS_OF_ENTRY * len(self.state.entries), _LONGEST_WAY)

    def taken(self, message: Message) -> Message:
        """What is folded of it."""
        return Message(message.header, message.columns, timing_of(message), message.next_seq)

    def check(self, message: Message) -> None:
        """Raises `BadMessage` for what cannot be folded."""
        self.state.check_events(message.header, message.columns)

    def fold(self, message: Message, book: RollupBook) -> None:
        """Raises `BadMessage` before anything changed."""
        self.state.apply(message)

    def count(self, message: Message, book: RollupBook) -> None:
        """What happened in it, folded or not, and how things stand after it."""
        times = timing_of(message).times
        add_events(book, message.columns, times)
        if not len(times):
            return
        copies, num_blocks = self._of_gpu()
        gauges = np.array([copies if name == "cached" else NOT_KNOWN for name in GAUGES], np.int64)
        for row in book.rows_of(int(times[-1]) // NS):
            row.read(gauges, num_blocks)

    def lose_track(self) -> None:
        self.state.note_gap()

    def draw(self) -> Callable[[], bytes]:
        """The state as it is now, to be packed by any thread."""
        drawn = self.state.copy()
        return lambda: residency_snapshot.dump(drawn, with_gone=False)

    def restart(self) -> None:
        """Faults are the live fold's to tell."""
        self.state.take_faults()

    def check_integrity(self) -> None:
        self.state.check_integrity(with_hashes=False)

    def _of_gpu(self) -> tuple[int, int]:
        """Copies, as far as they were told, and blocks."""
        pools = [(at, pool) for at, pool in enumerate(self.state.descriptor.pools) if pool.medium == _GPU]
        copies = sum(self.state.copies_on(at) for at, _ in pools)
        return copies, sum(pool.num_blocks for _, pool in pools) or NOT_KNOWN
