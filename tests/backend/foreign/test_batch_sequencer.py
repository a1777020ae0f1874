"""Order out of disorder, without an incarnation: each batch of each life is applied once, or told to be missing."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from kvxray_backend.sources.foreign.applied_batches import KEPT_DIGESTS
from kvxray_backend.sources.foreign.batch_sequencer import (
    LATE_FOR_NS,
    MAX_HOLD_BYTES,
    MAX_HOLD_NS,
    BatchSequencer,
)
from kvxray_backend.sources.foreign.batch_steps import (
    Apply,
    AskReplay,
    Duplicate,
    GapOpened,
    GapRepaired,
    JoinedMidstream,
    Late,
    Restarted,
)
from kvxray_backend.sources.foreign.replay_turns import ReplayTurns

S = 1_000_000_000


@dataclass(frozen=True)
class Made:
    """A batch of a life of an engine."""

    life: int
    seq: int
    ts: float | None

    @property
    def digest(self) -> bytes:
        return f"{self.life}:{self.seq}".encode()


def made(seq: int, ts: float | None = None, life: int = 0) -> Made:
    return Made(life, seq, float(seq) if ts is None else ts)


def offer(sequencer: BatchSequencer[Made], *batches: Made, now_ns: int = 0, replay_start: int | None = None) -> list:
    steps: list = []
    for batch in batches:
        steps += sequencer.offer(batch.seq, batch, 100, now_ns, replay_start=replay_start)
        sequencer.check_integrity()
    return steps


def applied(steps: list) -> list[int]:
    return [step.seq for step in steps if isinstance(step, Apply)]


def told(steps: list) -> list:
    return [step for step in steps if not isinstance(step, Apply)]


def following(*seqs: int, turns: ReplayTurns | None = None, hold_for_replay: bool = True) -> BatchSequencer[Made]:
    """A sequencer that has applied these."""
    sequencer: BatchSequencer[Made] = BatchSequencer(turns, hold_for_replay=hold_for_replay)
    offer(sequencer, *(made(seq) for seq in seqs))
    return sequencer


def test_batches_in_order_pass_through() -> None:
    sequencer: BatchSequencer[Made] = BatchSequencer(None)
    steps = offer(sequencer, made(0), made(1), made(2))
    assert applied(steps) == [0, 1, 2]
    assert told(steps) == []


def test_a_gap_is_asked_for_from_the_last_batch_applied_and_repaired_in_order() -> None:
    sequencer = following(0, 1, 2, turns=ReplayTurns())
    assert offer(sequencer, made(5), now_ns=1) == [AskReplay(2)]
    steps = offer(sequencer, made(2), made(3), made(4), made(5), now_ns=2, replay_start=2)
    assert applied(steps) == [3, 4, 5]
    assert told(steps) == []
    assert sequencer.replay_ended(2, 0, 3) == []
    assert sequencer.held_bytes == 0


def test_a_gap_that_replay_does_not_fill_is_told_as_soon_as_its_answer_ends() -> None:
    sequencer = following(0, 1, turns=ReplayTurns())
    offer(sequencer, made(7), now_ns=1)
    assert offer(sequencer, made(4), made(5), made(6), now_ns=2, replay_start=1) == []
    steps = sequencer.replay_ended(1, 0, 3)
    assert told(steps) == [GapOpened(2, 3)]
    assert applied(steps) == [4, 5, 6, 7]


def test_a_replay_that_never_answers_is_waited_for_two_seconds() -> None:
    turns = ReplayTurns(1)
    sequencer = following(0, turns=turns)
    assert offer(sequencer, made(2), made(4), now_ns=0) == [AskReplay(0)]
    assert sequencer.advance(MAX_HOLD_NS - 1) == []
    assert not turns.take()
    steps = sequencer.advance(MAX_HOLD_NS)
    assert [step for step in told(steps) if isinstance(step, GapOpened)] == [GapOpened(1, 1), GapOpened(3, 3)]
    assert applied(steps) == [2, 4]


def test_what_a_slow_replay_brings_after_the_gap_was_told_is_placed_late() -> None:
    sequencer = following(0, turns=ReplayTurns())
    offer(sequencer, made(3), now_ns=0)
    sequencer.advance(MAX_HOLD_NS)
    steps = offer(sequencer, made(0), made(1), made(2), now_ns=MAX_HOLD_NS + 1, replay_start=0)
    assert told(steps) == [Late(1, True), GapRepaired(1, 1), Late(2, True), GapRepaired(2, 2)]
    assert [step for step in steps if isinstance(step, Apply)] == [Apply(1, made(1), True), Apply(2, made(2), True)]


def test_without_holding_a_gap_is_told_at_once_and_the_late_batch_is_placed_when_it_comes() -> None:
    sequencer = following(0, hold_for_replay=False)
    steps = offer(sequencer, made(2), made(1))
    assert told(steps) == [GapOpened(1, 1), Late(1, True), GapRepaired(1, 1)]
    assert applied(steps) == [2, 1]


def test_without_replay_a_batch_that_was_overtaken_is_waited_for_too() -> None:
    sequencer = following(0)
    assert applied(offer(sequencer, made(2), made(1))) == [1, 2]


def test_the_same_payload_twice_is_a_duplicate() -> None:
    sequencer = following(0, 1)
    steps = offer(sequencer, made(1), made(2))
    assert told(steps) == [Duplicate(1)]
    assert applied(steps) == [2]


def test_another_payload_under_an_applied_number_is_a_restart() -> None:
    sequencer = following(0, 1)
    steps = offer(sequencer, made(0, ts=0.0, life=1), made(1, ts=5.0, life=1))
    assert told(steps) == [Restarted(0, 1)]
    assert applied(steps) == [0, 1]


def test_another_payload_that_is_older_is_of_an_earlier_life_and_is_not_applied() -> None:
    sequencer = following(10, 11)
    steps = offer(sequencer, made(10, ts=3.0, life=1))
    assert steps == [Late(10, False)]


def test_a_number_inside_a_gap_with_a_newer_time_is_a_restart() -> None:
    sequencer = following(0, 2, hold_for_replay=False)
    steps = offer(sequencer, made(1, ts=9.0, life=1))
    assert told(steps) == [Restarted(1, 2), JoinedMidstream(1)]


def test_a_restart_while_batches_are_held_lets_them_be_applied_first() -> None:
    sequencer = following(0, turns=ReplayTurns())
    offer(sequencer, made(2), made(3))
    steps = offer(sequencer, made(0, ts=9.0, life=1))
    assert [type(step) for step in steps] == [GapOpened, Apply, Apply, Restarted, Apply]
    assert applied(steps) == [2, 3, 0]


def test_the_digest_of_the_last_batch_unmasks_an_engine_that_restarted_unheard() -> None:
    sequencer = following(0, 1, 2, turns=ReplayTurns())
    offer(sequencer, made(5, ts=105.0, life=1))
    steps = offer(sequencer, made(2, ts=102.0, life=1), now_ns=1, replay_start=2)
    assert told(steps) == [Restarted(2, 2), AskReplay(0)]
    steps = offer(sequencer, *(made(seq, ts=100.0 + seq, life=1) for seq in range(6)), now_ns=2, replay_start=0)
    assert told(steps) == []
    assert applied(steps) == [0, 1, 2, 3, 4, 5]


def test_what_an_earlier_life_sent_comes_too_late_after_a_restart() -> None:
    sequencer = following(0, 1, 2)
    offer(sequencer, made(0, ts=9.0, life=1))
    assert offer(sequencer, made(3, ts=3.0)) == [Late(3, False)]


def test_an_engine_that_began_anew_with_its_clock_set_back_is_followed_after_a_while() -> None:
    sequencer = following(*range(100))
    steps: list = []
    for seq in range(30):
        batch = made(seq, ts=-1000.0 + seq, life=1)
        steps += offer(sequencer, batch, now_ns=seq * LATE_FOR_NS // 20)
        sequencer.check_integrity()
    (restart,) = [step for step in steps if isinstance(step, Restarted)]
    assert restart.seq == 20
    assert applied(steps) == [*range(20, 30)]


def test_stragglers_among_what_is_followed_never_are_a_restart() -> None:
    sequencer = following(0, 1, 2)
    steps = offer(sequencer, made(0, ts=100.0, life=1))
    for seq in range(1, 60):
        now_ns = seq * LATE_FOR_NS // 10
        steps += offer(sequencer, made(seq, ts=100.0 + seq, life=1), now_ns=now_ns)
        steps += offer(sequencer, made(seq + 2, ts=2.0 + seq / 100), now_ns=now_ns)
    assert len([step for step in steps if isinstance(step, Restarted)]) == 1
    assert applied(steps) == [*range(60)]


def test_joining_midstream_asks_for_the_beginning_and_says_where_the_stream_is_known_from() -> None:
    sequencer: BatchSequencer[Made] = BatchSequencer(ReplayTurns())
    assert offer(sequencer, made(8)) == [AskReplay(0)]
    steps = offer(sequencer, made(3), made(4), replay_start=0)
    assert told(steps) == [JoinedMidstream(3)]
    assert applied(steps) == [3, 4]
    assert applied(offer(sequencer, made(5), made(6), made(7), replay_start=0)) == [5, 6, 7, 8]


def test_joining_midstream_where_replay_reaches_the_beginning_is_no_news() -> None:
    sequencer: BatchSequencer[Made] = BatchSequencer(ReplayTurns())
    offer(sequencer, made(2))
    steps = offer(sequencer, made(0), made(1), made(2), replay_start=0)
    assert told(steps) == []
    assert applied(steps) == [0, 1, 2]


def test_joining_midstream_where_replay_has_nothing_begins_with_what_was_heard() -> None:
    sequencer: BatchSequencer[Made] = BatchSequencer(ReplayTurns())
    offer(sequencer, made(8), made(9))
    steps = sequencer.replay_ended(0, 0, 1)
    assert told(steps) == [JoinedMidstream(8)]
    assert applied(steps) == [8, 9]


def test_joining_midstream_without_replay_begins_at_once() -> None:
    assert told(offer(BatchSequencer(None), made(8))) == [JoinedMidstream(8)]


def test_what_is_only_known_to_have_been_dropped_is_asked_for_and_told() -> None:
    sequencer = following(0, 1, turns=ReplayTurns())
    assert sequencer.hear(4, 0) == [AskReplay(1)]
    assert applied(offer(sequencer, made(2), made(3), replay_start=1)) == [2, 3]
    assert sequencer.replay_ended(1, 0, 1) == [GapOpened(4, 4)]


def test_an_answer_that_did_not_fit_is_asked_for_again_from_where_it_broke_off() -> None:
    sequencer = following(0, turns=ReplayTurns())
    offer(sequencer, made(5))
    offer(sequencer, made(0), made(1), made(2), replay_start=0)
    assert sequencer.replay_ended(0, 2, 1) == [AskReplay(2)]
    assert applied(offer(sequencer, made(2), made(3), made(4), replay_start=2)) == [3, 4, 5]


def test_an_answer_that_did_not_fit_and_helped_nothing_is_not_asked_for_for_ever() -> None:
    sequencer = following(0, turns=ReplayTurns())
    offer(sequencer, made(5))
    offer(sequencer, made(0), replay_start=0)
    steps = sequencer.replay_ended(0, 4, 1)
    assert told(steps) == [GapOpened(1, 4)]


def test_more_than_may_be_held_is_not_waited_for() -> None:
    sequencer = following(0, turns=ReplayTurns())
    sequencer.offer(2, made(2), MAX_HOLD_BYTES // 2, 0)
    steps = sequencer.offer(3, made(3), MAX_HOLD_BYTES, 0)
    sequencer.check_integrity()
    assert told(steps) == [GapOpened(1, 1)]
    assert applied(steps) == [2, 3]
    assert sequencer.held_bytes == 0


def test_a_long_answer_is_waited_for_as_long_as_it_brings_something() -> None:
    sequencer = following(0, turns=ReplayTurns())
    offer(sequencer, made(9), now_ns=0)
    for seq in range(1, 9):
        steps = offer(sequencer, made(seq), now_ns=seq * S, replay_start=0)
        assert [step for step in steps if isinstance(step, GapOpened)] == []
        assert sequencer.advance(seq * S) == []
    assert applied(steps) == [8, 9]


def test_only_so_many_sources_are_asked_at_once_and_the_others_when_there_is_a_turn() -> None:
    turns = ReplayTurns(1)
    first, second = following(0, turns=turns), following(0, turns=turns)
    assert offer(first, made(2)) == [AskReplay(0)]
    assert offer(second, made(2)) == []
    assert told(second.advance(MAX_HOLD_NS)) == [GapOpened(1, 1)]
    first.replay_ended(0, 0, MAX_HOLD_NS)
    assert second.advance(MAX_HOLD_NS + 1) == [AskReplay(0)]
    steps = offer(second, made(0), made(1), made(2), now_ns=MAX_HOLD_NS + 2, replay_start=0)
    assert applied(steps) == [1]


def test_digests_of_the_newest_batches_alone_are_kept() -> None:
    sequencer = following(*range(KEPT_DIGESTS + 5))
    assert offer(sequencer, made(5)) == [Duplicate(5)]
    assert offer(sequencer, made(4)) == [Late(4, False)]
    assert Restarted(0, KEPT_DIGESTS + 4) in offer(sequencer, made(0, ts=1e6, life=1))


def test_a_made_up_number_does_not_blind_for_ever() -> None:
    sequencer = following(0, 1, hold_for_replay=False)
    offer(sequencer, made(2**64 - 2, ts=1.5))
    steps = offer(sequencer, made(2, ts=2.0), made(3, ts=3.0))
    assert applied(steps) == [2, 3]
    assert Restarted(2, 2**64 - 2) in steps


def test_batches_without_a_time_are_told_apart_by_their_payload() -> None:
    sequencer: BatchSequencer[Made] = BatchSequencer(None, hold_for_replay=False)
    steps = offer(sequencer, Made(0, 0, None), Made(0, 2, None), Made(0, 1, None), Made(1, 0, None))
    assert told(steps) == [GapOpened(1, 1), Late(1, True), GapRepaired(1, 1), Restarted(0, 2)]


@dataclass
class Epoch:
    """What the sequencer said of one life."""

    applied: list[Made] = field(default_factory=list)
    late: list[Made] = field(default_factory=list)
    missing: set[int] = field(default_factory=set)


class Engine(RuleBasedStateMachine):
    """An engine that sends, restarts and answers replay, and a wire that loses, doubles and reorders.

    One thing is asked of the wire, since nothing on it could tell: of a new life, the first batch that comes has a
    number that the old one had used.
    """

    @initialize(has_replay=st.booleans(), holds=st.booleans())
    def begin(self, has_replay: bool, holds: bool) -> None:
        self.sequencer: BatchSequencer[Made] = BatchSequencer(
            ReplayTurns(1) if has_replay else None, hold_for_replay=holds
        )
        self.now_ns, self.clock, self.life = 0, 0.0, 0
        self.sent: list[Made] = []  # of the life that runs
        self.wire: list[Made] = []
        self.answers: list[Made | tuple[int]] = []  # of the newest request; a tuple ends it
        self.asked: int | None = None
        self.epochs = [Epoch()]
        self.epoch_life = 0  # the life that the sequencer follows
        self.offered = self.accounted = 0

    @rule(count=st.integers(1, 4))
    def send(self, count: int) -> None:
        for _ in range(count):
            self.clock += 1
            batch = Made(self.life, len(self.sent), self.clock)
            self.sent.append(batch)
            self.wire.append(batch)

    @precondition(lambda self: self.wire)
    @rule(data=st.data(), twice=st.booleans())
    def deliver(self, data: st.DataObject, twice: bool) -> None:
        batch = self.wire.pop(data.draw(st.integers(0, len(self.wire) - 1)))
        for _ in range(1 + twice):
            self._offer(batch, None)

    @precondition(lambda self: self.wire)
    @rule(in_order=st.integers(1, 5))
    def deliver_in_order(self, in_order: int) -> None:
        for batch in self.wire[:in_order]:
            self._offer(batch, None)
        del self.wire[:in_order]

    @precondition(lambda self: self.wire)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        self.wire.pop(data.draw(st.integers(0, len(self.wire) - 1)))

    @precondition(lambda self: self.sent)
    @rule()
    def restart(self) -> None:
        if self.epoch_life != self.life:
            self.wire = [batch for batch in self.wire if batch.life != self.life]
        self.life += 1
        self.sent = []

    @precondition(lambda self: self.asked is not None)
    @rule(kept=st.integers(0, 30))
    def answer(self, kept: int) -> None:
        assert self.asked is not None
        self.answers = [batch for batch in self.sent[-kept:] if batch.seq >= self.asked] if kept else []
        self.answers.append((self.asked,))
        self.start, self.asked = self.asked, None

    @precondition(lambda self: self.answers)
    @rule(count=st.integers(1, 9), drops=st.sets(st.integers(0, 8)))
    def replay(self, count: int, drops: set[int]) -> None:
        for number in range(min(count, len(self.answers))):
            if not self.answers:
                return
            item = self.answers.pop(0)
            if isinstance(item, tuple):
                self._note(self.sequencer.replay_ended(item[0], len(drops), self.now_ns))
            elif number not in drops:
                self._offer(item, self.start)

    @rule()
    def drop_at_our_end(self) -> None:
        if self.sent and self.epoch_life == self.life:
            self._note(self.sequencer.hear(self.sent[-1].seq, self.now_ns))

    @rule(ns=st.sampled_from([1, S // 3, MAX_HOLD_NS]))
    def wait(self, ns: int) -> None:
        self.now_ns += ns
        self._note(self.sequencer.advance(self.now_ns))

    @invariant()
    def state_is_sound(self) -> None:
        if hasattr(self, "sequencer"):
            self.sequencer.check_integrity()

    def teardown(self) -> None:
        if not hasattr(self, "sequencer"):
            return
        self._note(self.sequencer.finish(self.now_ns))
        self.sequencer.check_integrity()
        assert self.accounted + self.sequencer.num_overlapping == self.offered, "a batch is neither applied nor told"
        lives = []
        for epoch in self.epochs:
            everything = epoch.applied + epoch.late
            assert len({batch.life for batch in everything}) <= 1, "two lives are mixed"
            lives += [batch.life for batch in everything[:1]]
            seqs = [batch.seq for batch in epoch.applied]
            assert seqs == sorted(set(seqs)), "batches are not applied in order, once each"
            present = {batch.seq for batch in everything}
            assert len(present) == len(everything), "a batch is applied twice"
            assert not present & epoch.missing
            if everything:
                assert present | epoch.missing >= set(range(max(present))), "a gap is not told"
        assert lives == sorted(set(lives)), "a life is told twice or out of order"

    def _offer(self, batch: Made, replay_start: int | None) -> None:
        present = [made.seq for made in self.epochs[-1].applied + self.epochs[-1].late]
        if batch.life > self.epoch_life and batch.seq > max(present, default=-1):
            return  # lost: nobody could tell
        self.offered += 1
        self._note(self.sequencer.offer(batch.seq, batch, 100, self.now_ns, replay_start=replay_start), heard=batch)

    def _note(self, steps: list, heard: Made | None = None) -> None:
        for step in steps:
            epoch = self.epochs[-1]
            match step:
                case Apply(_, batch, is_late):
                    (epoch.late if is_late else epoch.applied).append(batch)
                    self.accounted += 1
                case GapOpened(first, last):
                    epoch.missing |= set(range(first, last + 1))
                case JoinedMidstream(seq):
                    epoch.missing |= set(range(seq))
                case GapRepaired(first, last):
                    assert set(range(first, last + 1)) <= epoch.missing, "what was not missing is repaired"
                    epoch.missing -= set(range(first, last + 1))
                case Restarted(seq, _):
                    assert heard is not None
                    assert heard.life != self.epoch_life, "a restart is told that was none"
                    self.epochs.append(Epoch())
                    self.epoch_life = heard.life
                    self.wire = [other for other in self.wire if other.life == heard.life or other.seq >= seq]
                case Late(_, is_placed):
                    assert heard is not None
                    assert is_placed == (heard.life == self.epoch_life), "a late batch is judged wrongly"
                    self.accounted += not is_placed
                case Duplicate(_):
                    self.accounted += 1
                case AskReplay(start):
                    self.asked = start


TestEngine = Engine.TestCase
TestEngine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
