"""The engine's side of the stream: whole-request operations appended to lists, nothing per block and nothing turned to
bytes.

The lists the engine already built are handed on with one `extend` a column (what this buys, measured: appending per
block halves the speed of the pool). What follows from something else is left out, and the publisher's thread, which
turns the lists to bytes, fills it in. Lists with an entry for every running request become arrays at once: while their
numbers are still in the cache of this core that takes microseconds, and later, on another core, ten times as long.
A null recorder takes the same calls and does nothing but count ordinals.
"""

from __future__ import annotations

from array import array

from kvxray_engine.clock import Clock, SystemClock
from kvxray_engine.stream.handover import Handover, Many, RecordedMessage
from kvxray_engine.stream.pool_dump import PoolDump
from kvxray_engine.stream.schema import MAX_ORDINAL, NO_ORDINAL, Cause, Kind, Name, Totals

# Read once: in Python 3.11 to read a member of an enum class takes as long as an operation takes to record.
_STEP_STARTED, _STEP_COMPLETED = Kind.StepStarted, Kind.StepCompleted
_BLOCK_CACHED, _BLOCK_FILLED = Kind.BlockCached, Kind.BlockFilled
_NO_CAUSE = Cause.none


class NullRecorder:
    """Records nothing; gives out ordinals all the same, so that the engine's code has one shape."""

    enabled = False
    wants_dump = False

    def __init__(self) -> None:
        self.next_req = 0
        self.next_hash = 0

    def new_holder(self, name: Name) -> int:
        self.next_req += 1
        return self.next_req - 1

    def start_step(self, step: int) -> None: ...

    def rows(self, kind: Kind, cause: Cause, req: int, blocks: list[int], a0: int = 0, a1: int = 0) -> None: ...

    def values(
        self, kind: Kind, cause: Cause, req: int, blocks: list[int], vals: list[int], a0: int = 0, a1: int = 0
    ) -> None: ...

    def filled(self, blocks: list[int], slots: list[int]) -> None: ...

    def cached(self, req: int, blocks: list[int], hashes: list[bytes], parent: int, group: int = 0) -> int:
        first = self.next_hash
        self.next_hash += len(blocks)
        return first

    def op(self, kind: Kind, cause: Cause, req: int, a0: int = 0, a1: int = 0) -> None: ...

    def ops(self, kind: Kind, reqs: list[int], a0s: list[int], a1s: list[int]) -> None: ...

    def complete_step(self, tokens: int, totals: Totals | None = None) -> None: ...

    def flush(self, totals: Totals | None = None) -> None: ...

    def give_dump(self, dump: PoolDump) -> None: ...


class Recorder(NullRecorder):
    """The message being recorded, and the numbers of the epoch.

    Invariants: every message begins with StepStarted; `wire_seq`, `seq` and the ordinals are taken before the hand-over
    is tried, so that a refused message shows as a gap in all of them. `wants_dump` is set by a refusal and cleared by
    `give_dump`.
    """

    enabled = True

    def __init__(
        self, clock: Clock | None = None, handover: Handover | None = None, max_message_rows: int = 1 << 16
    ) -> None:
        super().__init__()
        self.clock = clock or SystemClock()
        self.handover = handover or Handover()
        self.max_message_rows = max_message_rows
        self.next_wire_seq = 0
        self.next_seq = 0
        self.lost = 0
        self.step = 0
        self._step_started_ns = 0
        self._clear()

    def _clear(self) -> None:
        self._names: list[Name] = []
        self._operations: list[int] = []  # kind, cause, req, n, a0, a1 of each, one after the other
        self._many: list[Many] = []
        self._blk: list[int] = []
        self._blk_inserted: list[tuple[int, array[int]]] = []
        self._val: list[int] = []
        self._val_inserted: list[tuple[int, array[int] | range]] = []
        self._hashes: list[bytes] = []
        self._more_events = 0  # than entries of blk
        self._req0 = self.next_req
        self._hash0 = self.next_hash

    @property
    def is_open(self) -> bool:
        """Whether anything was recorded since the last hand-over."""
        return bool(self._operations)

    def new_holder(self, name: Name) -> int:
        """The next ordinal for a request, sequence, pin, lease or transfer."""
        assert self.next_req < MAX_ORDINAL, "the ordinals of this epoch are used up: begin a new epoch"
        if not self._operations:
            self._open()
        self._names.append(name)
        return super().new_holder(name)

    def start_step(self, step: int) -> None:
        """Opens a message, or times the operations that follow within one already open."""
        self.step = step
        self._step_started_ns = self.clock.mono_ns()
        if not self._operations:
            self._open()
        else:
            self._operations += (_STEP_STARTED, _NO_CAUSE, NO_ORDINAL, 0, self._microseconds(), step & 0xFFFFFFFF)
            self._more_events += 1

    def rows(self, kind: Kind, cause: Cause, req: int, blocks: list[int], a0: int = 0, a1: int = 0) -> None:
        """An operation on blocks whose kind has no value."""
        if not blocks:
            return
        if not self._operations:
            self._open()
        self._operations += (kind, cause, req, len(blocks), a0, a1)
        self._blk += blocks
        if len(self._blk) >= self.max_message_rows:
            self.flush()

    def values(
        self, kind: Kind, cause: Cause, req: int, blocks: list[int], vals: list[int], a0: int = 0, a1: int = 0
    ) -> None:
        """An operation on blocks whose kind has a value a row."""
        if not blocks:
            return
        if not self._operations:
            self._open()
        self._val += vals
        self.rows(kind, cause, req, blocks, a0, a1)

    def filled(self, blocks: list[int], slots: list[int]) -> None:
        """BlockFilled for all blocks that a step wrote, with the slots written so far."""
        if not blocks:
            return
        if not self._operations:
            self._open()
        self._operations += (_BLOCK_FILLED, _NO_CAUSE, NO_ORDINAL, len(blocks), 0, 0)
        self._blk_inserted.append((len(self._blk), array("I", blocks)))
        self._val_inserted.append((len(self._val), array("i", slots)))
        self._more_events += len(blocks)

    def cached(self, req: int, blocks: list[int], hashes: list[bytes], parent: int, group: int = 0) -> int:
        """BlockCached for a run of a chain: `parent` is the hash ordinal before the first block (-1 none), the rest
        follow each other.

        Returns the ordinal of the first hash; block i has the i-th after it.
        """
        first = self.next_hash
        count = len(blocks)
        if not count:
            return first
        assert first + count < MAX_ORDINAL, "the ordinals of this epoch are used up: begin a new epoch"
        if not self._operations:
            self._open()
        self.next_hash = first + count
        self._hashes += hashes
        self._val.append(parent)
        if count > 1:
            self._val_inserted.append((len(self._val), range(first, first + count - 1)))
        self.rows(_BLOCK_CACHED, _NO_CAUSE, req, blocks, first, group)
        return first

    def op(self, kind: Kind, cause: Cause, req: int, a0: int = 0, a1: int = 0) -> None:
        """An operation without rows."""
        if not self._operations:
            self._open()
        self._operations += (kind, cause, req, 0, a0, a1)
        self._more_events += 1

    def ops(self, kind: Kind, reqs: list[int], a0s: list[int], a1s: list[int]) -> None:
        """The same operation, without rows, for many requests."""
        if not reqs:
            return
        if not self._operations:
            self._open()
        numbers = array("I", reqs), array("I", a0s), array("I", a1s)
        self._many.append(Many(len(self._operations), kind, *numbers))
        self._more_events += len(reqs)

    def complete_step(self, tokens: int, totals: Totals | None = None) -> None:
        """Closes the step and hands the message over. `tokens`: tokens computed in it."""
        duration = min((self.clock.mono_ns() - self._step_started_ns) // 1000, 0xFFFFFFFF)
        self.op(_STEP_COMPLETED, _NO_CAUSE, NO_ORDINAL, duration, tokens)
        self.flush(totals)

    def flush(self, totals: Totals | None = None) -> None:
        """Hands over what is recorded; nothing to do when nothing is."""
        if not self._operations:
            return
        events = len(self._blk) + self._more_events
        message = RecordedMessage(
            self.next_wire_seq, self.next_seq, events, self.step, self._t0_wall_ns, self._t0_mono_ns, self.lost,
            self._req0, self._hash0, self._names, self._operations, self._many, self._blk, self._blk_inserted,
            self._val, self._val_inserted, self._hashes, totals,
        )  # fmt: skip
        self.next_wire_seq += 1
        self.next_seq += events
        if not self.handover.offer(message):
            self.lost += 1
            self.wants_dump = True
        self._clear()

    def give_dump(self, dump: PoolDump) -> None:
        """Leaves the pool's state, as of all that was flushed, for the publisher to begin anew from."""
        assert not self._operations, "a dump describes the state between messages: flush first"
        self.wants_dump = False
        dump.next_seq, dump.step, dump.t_ns = self.next_seq, self.step, self.clock.wall_ns()
        self.handover.give_dump(self.next_wire_seq - 1, dump)

    def _open(self) -> None:
        # Whole microseconds, so that joining messages (whose times count in them) loses nothing.
        self._t0_wall_ns = self.clock.wall_ns() // 1000 * 1000
        self._t0_mono_ns = self.clock.mono_ns()
        self._operations += (_STEP_STARTED, _NO_CAUSE, NO_ORDINAL, 0, 0, self.step & 0xFFFFFFFF)
        self._more_events += 1

    def _microseconds(self) -> int:
        return (self.clock.mono_ns() - self._t0_mono_ns) // 1000
