"""Puts the batches of one foreign publisher in order, though nothing on its wire tells one of its lives from the next.

Pure: no socket, no thread, time only as a number handed in. A batch is judged by its number, its time and a digest of
its payload:

    applied already, same digest       a duplicate
    applied already, other digest      a restart; of an earlier life where its time is older
    never applied, its turn is over    late where its time is older than the newest applied, else a restart
    twenty late ones in a row, for 5 s a restart with the clock set back: stragglers come among others
    behind a hole                      held, at most 2 s without progress and 64 MB, while replay is asked for the rest

Replay is asked from the last batch applied on, not from the first one missing: the digest of that one proves that it is
still the same life that answers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Generic

from kvxray_backend.sources.foreign.applied_batches import AppliedBatches, EarlierLife, earlier_life
from kvxray_backend.sources.foreign.batch_steps import (
    Apply,
    AskReplay,
    Duplicate,
    GapOpened,
    GapRepaired,
    JoinedMidstream,
    Late,
    Restarted,
    Step,
    T,
)
from kvxray_backend.sources.foreign.held_batches import Held, HeldBatches
from kvxray_backend.sources.foreign.replay_turns import ReplayTurns
from kvxray_backend.sources.foreign.seq_ranges import SeqRanges

MAX_HOLD_NS: Final = 2_000_000_000
MAX_HOLD_BYTES: Final = 64 << 20
# Stragglers of an earlier life are few, soon over, and come among those of the present one.
LATE_IN_A_ROW: Final = 20
LATE_FOR_NS: Final = 5_000_000_000


@dataclass(slots=True)
class _Attempt:
    """One replay request. `upto`: the newest batch known of when it was made; `heard_ns`: when its answer last told
    something; `has_helped`: whether that was missing.
    """

    start: int
    upto: int
    heard_ns: int
    has_helped: bool = False


@dataclass(slots=True)
class _LateRun:
    """Batches that seem to be of an earlier life, one after the other, with none of the present one among them."""

    next_seq: int
    since_ns: int
    num: int = 0


class BatchSequencer(Generic[T]):
    """Invariants: `next_seq` is None until the first batch of a life is chosen; what is held lies at or after it, and
    after each call nothing lies at it; what is missing lies before it and was not applied.
    """

    def __init__(self, turns: ReplayTurns | None, *, hold_for_replay: bool = True) -> None:
        """turns: shared by all that ask; None: there is no replay. hold_for_replay False: every batch is applied as it
        comes; a gap is then told at once, and what fills it is placed when it comes.
        """
        self.next_seq: int | None = None
        self.num_overlapping = 0  # batches that replay told though we had them
        self._turns = turns
        self._holds = hold_for_replay
        self._held: HeldBatches[T] = HeldBatches()
        self._missing = SeqRanges()
        self._applied = AppliedBatches()
        self._earlier: EarlierLife | None = None
        self._last_heard = -1
        self._tail_ns = 0
        self._progress_ns = 0
        self._attempt: _Attempt | None = None
        self._want: int | None = None
        self._asked_upto = -1
        self._has_asked_to_join = False
        self._late_run = _LateRun(0, 0)

    @property
    def num_held(self) -> int:
        """Batches that wait for others before them."""
        return len(self._held)

    @property
    def held_bytes(self) -> int:
        return self._held.num_bytes

    def offer(
        self, seq: int, batch: T, num_bytes: int, now_ns: int, *, replay_start: int | None = None
    ) -> list[Step[T]]:
        """One batch, in any order. replay_start: it is of the answer to `AskReplay` from there on."""
        steps: list[Step[T]] = []
        if self._is_plainly_next(seq, batch, now_ns):
            self.next_seq, self._last_heard = seq + 1, seq
            self._apply(steps, seq, batch)
            return steps
        is_replayed = replay_start is not None
        answers = self._attempt if self._attempt is not None and self._attempt.start == replay_start else None
        before, num_known = self.next_seq, self.num_overlapping
        self._place(steps, seq, Held(batch, num_bytes, now_ns), is_replayed=is_replayed)
        self._settle(steps, now_ns, can_join=answers is not None and answers is self._attempt)
        if is_replayed and self.next_seq != before:
            self._progress_ns = now_ns
        if answers is not None:
            answers.heard_ns = now_ns
            answers.has_helped |= self.num_overlapping == num_known
        return steps

    def hear(self, last_seq: int, now_ns: int) -> list[Step[T]]:
        """Batches up to `last_seq` exist, though they did not come."""
        steps: list[Step[T]] = []
        if last_seq > self._last_heard:
            self._last_heard, self._tail_ns = last_seq, now_ns
        self._settle(steps, now_ns)
        return steps

    def replay_ended(self, start: int, num_dropped: int, now_ns: int) -> list[Step[T]]:
        """The answer to `AskReplay(start)` is complete, but for `num_dropped` batches that were lost on our side."""
        steps: list[Step[T]] = []
        attempt = self._attempt
        if attempt is None or attempt.start != start:
            return steps
        self._end_attempt()
        if num_dropped and attempt.has_helped:
            self._asked_upto = -1  # asked again, from where we are now
        else:
            self._give_up_upto(steps, attempt.upto)
        self._settle(steps, now_ns, can_join=True)
        return steps

    def advance(self, now_ns: int) -> list[Step[T]]:
        """What time alone brings: gives up waiting, asks when there is a turn."""
        steps: list[Step[T]] = []
        if self._attempt is not None and now_ns - self._attempt.heard_ns >= MAX_HOLD_NS:
            self._end_attempt()
        self._settle(steps, now_ns)
        return steps

    def finish(self, now_ns: int) -> list[Step[T]]:
        """Nothing more will come: what is held is applied, and what is missing is told."""
        steps: list[Step[T]] = []
        self._end_attempt()
        self._want = None
        self._flush(steps)
        return steps

    def check_integrity(self) -> None:
        """Asserts the invariants."""
        self._held.check_integrity()
        self._missing.check_integrity()
        assert not any(seq in self._missing for seq in self._applied), "a missing batch was applied"
        if self.next_seq is None:
            assert not len(self._applied), "batches were applied before one was chosen to begin with"
            return
        first = self._held.first_seq
        assert first is None or first > self.next_seq, "a batch is held that was passed or is next"
        assert self._missing.last < self.next_seq, "what is missing is not behind"
        assert all(seq < self.next_seq for seq in self._applied), "a batch was applied ahead of its turn"

    def _place(self, steps: list[Step[T]], seq: int, held: Held[T], *, is_replayed: bool) -> None:
        ts = held.batch.ts
        if self._earlier is not None and self._earlier.told(seq, ts, held.heard_ns):
            self._too_late(steps, seq, held, is_replayed)
            return
        known = self._known(seq)
        if known is not None:
            self._compare(steps, seq, held, known, is_replayed)
        elif self.next_seq is None or seq >= self.next_seq:
            self._hold(seq, held)
        elif not self._applied.is_before(seq, ts, is_missing=seq in self._missing):
            self._restart(steps, seq, held)
        elif seq in self._missing:
            self._missing.remove(seq)
            steps += [Late(seq, is_placed=True), GapRepaired(seq, seq)]
            self._apply(steps, seq, held.batch, is_late=True)
        else:
            self._too_late(steps, seq, held, is_replayed)

    def _too_late(self, steps: list[Step[T]], seq: int, held: Held[T], is_replayed: bool) -> None:
        """It has no place any more; but where nothing else comes, the engine began anew with its clock set back."""
        if is_replayed:
            steps.append(Late(seq, is_placed=False))
            return
        run = self._late_run
        if run.num == 0 or seq != run.next_seq:
            run = self._late_run = _LateRun(seq, held.heard_ns)
        run.next_seq, run.num = seq + 1, run.num + 1
        if run.num >= LATE_IN_A_ROW and held.heard_ns - run.since_ns >= LATE_FOR_NS:
            self._restart(steps, seq, held)
        else:
            steps.append(Late(seq, is_placed=False))

    def _is_plainly_next(self, seq: int, batch: T, now_ns: int) -> bool:
        """Whether nothing waits, nothing is missing since, and this is what comes next: nearly always so."""
        return (
            seq == self.next_seq
            and self._last_heard < seq
            and self._attempt is None
            and self._want is None
            and (self._earlier is None or not self._earlier.told(seq, batch.ts, now_ns))
        )

    def _known(self, seq: int) -> tuple[bytes, float | None] | None:
        """Digest and time of the batch of that number, applied or held."""
        waiting = self._held.get(seq)
        return (waiting.batch.digest, waiting.batch.ts) if waiting is not None else self._applied.get(seq)

    def _compare(
        self, steps: list[Step[T]], seq: int, held: Held[T], known: tuple[bytes, float | None], is_replayed: bool
    ) -> None:
        digest, known_ts = known
        ts = held.batch.ts
        if held.batch.digest == digest:
            if is_replayed:
                self.num_overlapping += 1
            else:
                steps.append(Duplicate(seq))
        elif ts is not None and known_ts is not None and ts < known_ts:
            self._too_late(steps, seq, held, is_replayed)
        else:
            self._restart(steps, seq, held)

    def _hold(self, seq: int, held: Held[T]) -> None:
        self._held.add(seq, held)
        self._last_heard = max(self._last_heard, seq)

    def _restart(self, steps: list[Step[T]], seq: int, held: Held[T]) -> None:
        ts = held.batch.ts
        waiting = self._held.pop_all()
        newer = [(number, other) for number, other in waiting if number != seq and _is_at_or_after(other.batch.ts, ts)]
        if newer:
            self._last_heard = -1  # what told of the end of the earlier life was of this one
        for number, other in waiting:
            if (number, other) not in newer:
                self._hold(number, other)
        self._flush(steps)
        last_seq = None if self.next_seq is None else self.next_seq - 1
        steps.append(Restarted(seq, last_seq))
        self._earlier = earlier_life(self._applied, seq, ts, held.heard_ns)
        self._begin_life()
        for number, other in [*newer, (seq, held)]:
            self._hold(number, other)

    def _begin_life(self) -> None:
        self._end_attempt()
        self.next_seq = self._want = None
        self._applied = AppliedBatches()
        self._missing.clear()
        self._last_heard = self._asked_upto = -1
        self._has_asked_to_join = False

    def _settle(self, steps: list[Step[T]], now_ns: int, *, can_join: bool = False) -> None:
        """Applies what is next, and decides about what is missing. can_join: no earlier batch will come than those
        held.
        """
        if self.next_seq is None:
            self._try_to_join(steps, now_ns, can_join=can_join)
        if self.next_seq is not None:
            self._drain(steps)
            while self._is_overdue(now_ns):
                self._give_up(steps)
            self._want_what_is_missing()
        self._ask(steps, now_ns)

    def _try_to_join(self, steps: list[Step[T]], now_ns: int, *, can_join: bool) -> None:
        first = self._held.first_seq
        if first is None:
            return
        if first > 0 and self._turns is not None and not self._has_asked_to_join:
            self._has_asked_to_join, self._want = True, 0
        if first == 0 or can_join or self._turns is None or not self._holds or self._has_waited(now_ns):
            self._join(steps, first)

    def _join(self, steps: list[Step[T]], first: int) -> None:
        self.next_seq = first
        if first > 0:
            self._missing.append(0, first - 1)
            steps.append(JoinedMidstream(first))

    def _drain(self, steps: list[Step[T]]) -> None:
        assert self.next_seq is not None
        while self._held.first_seq == self.next_seq:
            seq, held = self._held.pop_first()
            self.next_seq = seq + 1
            self._apply(steps, seq, held.batch)

    def _apply(self, steps: list[Step[T]], seq: int, batch: T, *, is_late: bool = False) -> None:
        steps.append(Apply(seq, batch, is_late))
        self._late_run.num = 0
        self._applied.add(seq, batch)

    def _hole(self) -> int | None:
        """The last batch of the first hole, which begins with `next_seq`."""
        assert self.next_seq is not None
        if self._held.first_seq is not None:
            return self._held.first_seq - 1
        return self._last_heard if self._last_heard >= self.next_seq else None

    def _is_overdue(self, now_ns: int) -> bool:
        return self._hole() is not None and (not self._holds or self._has_waited(now_ns))

    def _has_waited(self, now_ns: int) -> bool:
        """Whether what waits for others has done so for long enough, or is too much."""
        first = self._held.first_seq
        held = None if first is None else self._held.get(first)
        since_ns = max(self._progress_ns, held.heard_ns if held is not None else self._tail_ns)
        return now_ns - since_ns >= MAX_HOLD_NS or self._held.num_bytes > MAX_HOLD_BYTES

    def _give_up(self, steps: list[Step[T]]) -> None:
        last = self._hole()
        assert last is not None, "there is no hole to give up"
        assert self.next_seq is not None
        self._want_what_is_missing()
        steps.append(GapOpened(self.next_seq, last))
        self._missing.append(self.next_seq, last)
        self.next_seq = last + 1
        self._drain(steps)

    def _give_up_upto(self, steps: list[Step[T]], upto: int) -> None:
        """The holes that replay was asked about and did not fill."""
        while self.next_seq is not None and (last := self._hole()) is not None and last <= upto:
            self._give_up(steps)

    def _flush(self, steps: list[Step[T]]) -> None:
        first = self._held.first_seq
        if self.next_seq is None and first is not None:
            self._join(steps, first)
        if self.next_seq is None:
            return
        self._drain(steps)
        while self._hole() is not None:
            self._give_up(steps)

    def _want_what_is_missing(self) -> None:
        """Notes from where replay is wanted, once for each hole."""
        last = self._hole()
        if self._turns is None or last is None or last <= self._asked_upto:
            return
        assert self.next_seq is not None
        if self._want is None:
            self._want = max(0, self.next_seq - 1)

    def _ask(self, steps: list[Step[T]], now_ns: int) -> None:
        if self._want is None or self._attempt is not None or self._turns is None:
            return
        if self.next_seq is not None and self._hole() is None and self._missing.last < self._want:
            self._want = None  # it came meanwhile
            return
        if not self._turns.take():
            return
        self._attempt = _Attempt(self._want, self._last_heard, now_ns)
        self._asked_upto = self._last_heard
        steps.append(AskReplay(self._want))
        self._want = None

    def _end_attempt(self) -> None:
        if self._attempt is not None and self._turns is not None:
            self._turns.give_back()
        self._attempt = None


def _is_at_or_after(ts: float | None, moment: float | None) -> bool:
    return ts is not None and moment is not None and ts >= moment
