"""The writer's own fold of one epoch: what periodic keyframes and rollups are made from. Pure: no database, no clock.

It takes what is stored, chunk by chunk in the order of the events, and forgets where messages are missing. Begun from
any keyframe with that keyframe's open rollups it goes on exactly as if it had folded all that came before: whatever it
made is made the same again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kvxray_engine.stream import snapshot
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.codec import BadMessage, Message
from kvxray_engine.stream.columns import Columns
from kvxray_engine.stream.event_times import timing_of
from kvxray_engine.stream.hash_table import HashTable
from kvxray_engine.stream.schema import Descriptor

from kvxray_storage.chunk_rollup import add_events, add_latencies, tokens_of
from kvxray_storage.chunk_seconds import by_second
from kvxray_storage.fold_gauges import FoldGauges
from kvxray_storage.records import EpochKey, Keyframe
from kvxray_storage.rollup_book import NS, RollupBook

KEYFRAME_ROWS: Final = 131_072


class EpochFold:
    """`rows`: events since the last keyframe of any origin. The fold's hashes are ordinals only: their bytes are in the
    chunks, and would double what it takes of memory.
    """

    def __init__(self, key: EpochKey, block_map: BlockMap, book: RollupBook) -> None:
        self.key = key
        self.book = book
        self.rows = 0
        self._begin(block_map)
        self._gauges = FoldGauges(block_map)

    @staticmethod
    def without_keyframe(
        key: EpochKey, descriptor: Descriptor, wire_seq: int, seq: int, t_ns: int, book: RollupBook
    ) -> EpochFold:
        """From the first message that is stored: when it is the engine's first, every block is empty, else unknown."""
        block_map = BlockMap(descriptor, known=wire_seq == 0 and seq == 0)
        block_map.next_wire_seq, block_map.next_seq, block_map.t_ns = wire_seq, seq, t_ns
        return EpochFold(key, block_map, book)

    @property
    def next_wire_seq(self) -> int:
        return self.block_map.next_wire_seq

    @property
    def next_seq(self) -> int:
        return self.block_map.next_seq

    @property
    def is_due(self) -> bool:
        """Whether a keyframe is to be written here."""
        return self.rows >= max(KEYFRAME_ROWS, self.block_map.num_blocks)

    def fold(self, wire_seq0: int, message: Message) -> None:
        """A chunk that begins with message `wire_seq0` and does not lie before what was folded."""
        state = self.block_map
        assert wire_seq0 >= state.next_wire_seq, "a late chunk cannot be folded on top of what came after it"
        if wire_seq0 > state.next_wire_seq:
            self._forget()
        whole = Message(message.header, _without_hashes(message.columns), timing_of(message))
        for part in self._parts(whole):
            self._fold_part(part)
        self.rows += message.header.n

    def skip_to(self, wire_seq: int, seq: int, *, lost: bool) -> None:
        """Messages before these numbers hold nothing more, or cannot be read: then what they changed is unknown."""
        if lost:
            self._forget()
        self.block_map.next_wire_seq, self.block_map.next_seq = wire_seq, seq

    def keyframe(self) -> Keyframe:
        """The state as it is now; the next one is due an interval later."""
        return self.draft()()

    def draft(self) -> Callable[[], Keyframe]:
        """The same, of which any thread can make the keyframe."""
        state = self.block_map
        drawn = snapshot.draft(state, with_hashes=False)
        self._restart_sums()
        fields: dict[str, Any] = {
            "key": self.key, "seq": state.next_seq, "wire_seq": state.next_wire_seq, "t_ns": state.t_ns,
            "kind": "pool", "names": {}, "origin": "periodic", "rollup": self.book.encode(),
        }  # fmt: skip
        return lambda: Keyframe(state=drawn.pack(), **fields)

    def adopt(self, wire_seq: int, seq: int, state: BlockMap) -> bytes:
        """Goes on from what the engine says itself; returns the open rollups there, which belong to its keyframe."""
        if wire_seq > self.next_wire_seq or not self.block_map.holders_known:
            # Tokens may lie in what is missing.
            self.book.since_ns = max(self.book.since_ns, self.block_map.t_ns)
        self._begin(state)
        state.next_wire_seq, state.next_seq = wire_seq, seq
        self._gauges.begin(state)
        self._restart_sums()
        return self.book.encode()

    def check_integrity(self) -> None:
        self.book.check_integrity()
        self._gauges.check_integrity(self.block_map)

    def _begin(self, state: BlockMap) -> None:
        state.hashes = HashTable(state.hashes.width)
        self.block_map = state

    def _restart_sums(self) -> None:
        """At every keyframe, so that a fold that begins there has the very same; faults are the live fold's to tell."""
        self.rows = 0
        self.block_map.take_faults()
        self._gauges.leaked.begin(self.block_map)

    def _parts(self, message: Message) -> list[Message]:
        """By second; a message that cannot be folded is not half folded."""
        parts = by_second(message)
        try:
            if len(parts) > 1:
                self.block_map.check_blocks(message.columns)
        except BadMessage:
            return [message]
        return parts

    def _fold_part(self, message: Message) -> None:
        state, times = self.block_map, timing_of(message).times
        tokens = tokens_of(message.columns, times, state.requests)
        self._apply(message)
        add_events(self.book, message.columns, times)
        if tokens is not None:
            add_latencies(self.book, tokens, state.requests)
        if len(times):
            self._read_gauges(int(times[-1]))

    def _apply(self, message: Message) -> None:
        state = self.block_map
        try:
            touched = state.apply(message)
        except BadMessage:
            self.skip_to(message.header.wire_seq + 1, message.header.seq0 + message.header.n, lost=True)
            return
        if message.header.type == "descriptor":
            self._gauges.begin(state)
        else:
            self._gauges.note(state, message.columns, touched)

    def _forget(self) -> None:
        state = self.block_map
        state.forget()
        self.book.since_ns = max(self.book.since_ns, state.t_ns)
        self._gauges.begin(state)

    def _read_gauges(self, t_ns: int) -> None:
        state = self.block_map
        gauges = self._gauges.read(state)
        for row in self.book.rows_of(t_ns // NS):
            row.read(gauges, state.descriptor.usable_blocks)


def _without_hashes(columns: Columns) -> Columns:
    return Columns(
        columns.kind, columns.cause, columns.req, columns.n, columns.a0, columns.a1, columns.blk, columns.val
    )  # fmt: skip
