"""The writer's fold of an engine that tells of its blocks: its state, what it counts, and its gauges. Pure.

Its hashes are ordinals only: their bytes are in the chunks, and would double what it takes of memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kvxray_engine.stream import snapshot
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.columns import Columns
from kvxray_engine.stream.event_times import timing_of
from kvxray_engine.stream.hash_table import HashTable

from kvxray_storage.chunk_rollup import add_events, add_latencies, tokens_of
from kvxray_storage.fold_gauges import FoldGauges
from kvxray_storage.rollup_book import NS, RollupBook
from kvxray_storage.state_kinds import POOL


class FoldedPool:
    kind: Final = POOL

    def __init__(self, state: BlockMap) -> None:
        state.hashes = HashTable(state.hashes.width)
        self.state = state
        self._gauges = FoldGauges(state)

    @property
    def least_interval(self) -> int:
        """Events between two keyframes, at least: of so many blocks a keyframe tells."""
        return self.state.num_blocks

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing from which tokens are timed."""
        return self.state.holders_known

    def taken(self, message: Message) -> Message:
        """What is folded of it."""
        return Message(message.header, _without_hashes(message.columns), timing_of(message))

    def check(self, message: Message) -> None:
        """Raises `BadMessage` for what cannot be folded."""
        self.state.check_blocks(message.columns)

    def fold(self, message: Message, book: RollupBook) -> None:
        """Raises `BadMessage` before anything changed."""
        state, times = self.state, timing_of(message).times
        tokens = tokens_of(message.columns, times, state.requests)
        touched = state.apply(message)
        if message.header.type == "descriptor":
            self._gauges.begin(state)
        else:
            self._gauges.note(state, message.columns, touched)
        if tokens is not None:
            add_latencies(book, tokens, state.requests)

    def count(self, message: Message, book: RollupBook) -> None:
        """What happened in it, folded or not, and how things stand after it."""
        times = timing_of(message).times
        add_events(book, message.columns, times)
        if not len(times):
            return
        gauges = self._gauges.read(self.state)
        for row in book.rows_of(int(times[-1]) // NS):
            row.read(gauges, self.state.descriptor.usable_blocks)

    def lose_track(self) -> None:
        self.state.forget()
        self._gauges.begin(self.state)

    def draw(self) -> Callable[[], bytes]:
        """The state as it is now, to be packed by any thread."""
        return snapshot.draft(self.state, with_hashes=False).pack

    def restart(self) -> None:
        """At every keyframe, so that a fold that begins there has the very same; faults are the live fold's to tell."""
        self.state.take_faults()
        self._gauges.leaked.begin(self.state)

    def check_integrity(self) -> None:
        self._gauges.check_integrity(self.state)


def _without_hashes(columns: Columns) -> Columns:
    return Columns(
        columns.kind, columns.cause, columns.req, columns.n, columns.a0, columns.a1, columns.blk, columns.val
    )  # fmt: skip
