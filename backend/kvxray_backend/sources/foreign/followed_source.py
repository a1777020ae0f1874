"""One foreign source (an engine, or one rank of it): steps of its stream in, what is cached and what was found out.

Batches in order become messages, messages are folded, and whatever is odd on the way becomes a finding. Knows no
socket and no database; time is a number handed in.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable
from typing import Final, Literal

from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.columns import U4
from kvxray_engine.stream.joining import EVENTS_OF_BATCH
from kvxray_engine.stream.residency_faults import ResidencyFault
from kvxray_engine.stream.residency_map import ResidencyMap
from kvxray_engine.stream.residency_returns import ReturnBook
from kvxray_engine.stream.residency_rows import Bools
from kvxray_engine.stream.residency_state import StoreSemantics

from kvxray_backend.analysis import stream_findings as found
from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.findings_list import FindingsList
from kvxray_backend.analysis.readmissions import Readmissions, thrash_finding
from kvxray_backend.analysis.residency_findings import fault_finding, over_capacity_finding, unreachable_findings
from kvxray_backend.analysis.seed_mismatch import HashesByTokens
from kvxray_backend.analysis.stream_health import Place
from kvxray_backend.sources.foreign.batch_steps import (
    Apply,
    Duplicate,
    GapOpened,
    GapRepaired,
    JoinedMidstream,
    Late,
    Restarted,
    Step,
)
from kvxray_backend.sources.foreign.caps import BadBatch
from kvxray_backend.sources.foreign.epoch_recording import EpochRecording
from kvxray_backend.sources.foreign.folded_together import FoldedTogether
from kvxray_backend.sources.foreign.interning import EpochIsFull, Interned, Interning
from kvxray_backend.sources.foreign.late_clear import without_late_clears
from kvxray_backend.sources.foreign.media import tier_of
from kvxray_backend.sources.foreign.open_gaps import OpenGaps
from kvxray_backend.sources.foreign.ordered_stream import Delivery
from kvxray_backend.sources.foreign.own_numbers import OwnNumbers
from kvxray_backend.sources.foreign.placed_removals import names_no_medium, with_media
from kvxray_backend.sources.foreign.silence import Silence
from kvxray_backend.sources.foreign.stream_records import EpochBegan, Missing, StreamRecord
from kvxray_backend.sources.foreign.told import Batch, Cleared, Stored
from kvxray_backend.sources.privacy import NameFilter

Confidence = Literal["exact", "degraded", "stale"]
MAX_MISSING_PARENTS: Final = 100_000
MAX_ODDITIES: Final = 256
LOST_ON_THE_WAY: Final = "the batches never arrived"
BEFORE_JOINING: Final = "kvxray was not following, and nobody could tell them again"
CANNOT_BE_TOLD: Final = "the batch is none that can be followed"


class FollowedSource:
    """`fold`, `readmissions`: of the present epoch. `oddities`: what was not understood, by name. Invariant: what
    `missing_parents` holds was told as a finding in this epoch.
    """

    def __init__(
        self,
        name: str,
        names: NameFilter,
        by_tokens: HashesByTokens,
        *,
        store_semantics: StoreSemantics = "unknown",
        num_blocks: int | None = None,
        first_epoch: int = 1,
        is_stored: Callable[[Message], bool] | None = None,
        record: Callable[[StreamRecord], object] | None = None,
    ) -> None:
        """by_tokens: of the engine, shared by its ranks. num_blocks: of the GPU's cache, None: as the stream tells.

        record: takes what is to be kept, in order; None: nothing is. is_stored: what an earlier epoch has already, and
        is only folded when it is told again.
        """
        self.name = name
        self.epoch = first_epoch - 1
        self._first_epoch = first_epoch
        self.num_blocks = num_blocks
        self.findings = FindingsList()
        self.oddities: Counter[str] = Counter()
        self._names = names
        self._by_tokens = by_tokens
        self._semantics: StoreSemantics = store_semantics
        self._recording = EpochRecording(record, is_stored)
        self._numbers = OwnNumbers()
        self._seq = 0
        self._silence = Silence(self.findings)
        self._now_ns = 0  # as last told: time goes on where nothing comes
        self._gaps = OpenGaps()
        self._waiting = FoldedTogether()
        self._begin_epoch(known=True)

    @property
    def confidence(self) -> Confidence:
        """Of all that is said of what is cached now."""
        if self._silence.is_stale:
            return "stale"
        return "exact" if self.fold.known else "degraded"

    @property
    def last_heard_ns(self) -> int | None:
        """When a batch came last, None before the first."""
        return self._silence.last_heard_ns

    @property
    def is_first_epoch(self) -> bool:
        """Whether nothing was followed before what is followed now."""
        return self.epoch == self._first_epoch

    def take(self, *steps: Step[Delivery]) -> None:
        """What came, in order; plain batches in a row are folded together."""
        for step in steps:
            if isinstance(step, Apply):
                self._silence.hear(step.batch.heard.received_ns)
                self._apply(step.seq, step.batch, is_late=step.is_late)
            else:
                self._fold_waiting()
                self._take_other(step)
        self._fold_waiting()

    def _take_other(self, step: Step[Delivery]) -> None:
        match step:
            case GapOpened():
                self._open_gap(step)
            case GapRepaired(first, last):
                for finding_id in self._gaps.repair(first, last):
                    self.findings.end(finding_id, self.place.t_ns)
            case Restarted():
                self.findings.end_all(self.place.t_ns)
                self._begin_epoch(known=True)
                self._numbers.begin_at(0)
                self._by_tokens.clear()
                self._seq = 0
                self.findings.note(found.engine_restart_finding(self.place, step))
            case Duplicate():
                self.findings.note(found.duplicate_batch_finding(self.place, step))
            case Late():
                self.findings.note(found.late_batch_finding(self.place, step))
            case JoinedMidstream(seq):
                self.fold.note_gap()
                self._numbers.begin_at(seq)
                self._recording.record(Missing(0, seq - 1, BEFORE_JOINING))
                self.findings.note(found.joined_midstream_finding(self.place, step))

    def advance(self, now_ns: int, *, work: found.Work | None = None) -> None:
        """Notices silence. work: what metrics show; None: not known."""
        self._now_ns = max(now_ns, self._now_ns)
        self._silence.advance(now_ns, self.place, work)

    def state_findings(self) -> list[Finding]:
        """What is wrong with what is cached now; costs a pass over all of it."""
        states = unreachable_findings(self.place, self.fold, self._missing_parents)
        for medium, pool in enumerate(self.fold.descriptor.pools):
            num_blocks = self.num_blocks if tier_of(pool.name) == "GPU" else None
            finding = over_capacity_finding(self.place, self.fold, medium, num_blocks)
            states += [finding] if finding is not None else []
        thrashing = thrash_finding(self.place, self.fold, self.readmissions, self._now_ns)
        return [*states, thrashing] if thrashing is not None else states

    @property
    def place(self) -> Place:
        """Where the next finding is."""
        t_ns = self.fold.t_ns or self.last_heard_ns or 0
        return Place(self.name, self.epoch, self._seq, t_ns)

    def check_integrity(self) -> None:
        """Asserts the invariants."""
        assert not self._waiting, "batches wait to be folded"
        self.fold.check_integrity()
        self.readmissions.check_integrity()
        self.findings.check_integrity()
        self._gaps.check_integrity()

    def _apply(self, seq: int, delivery: Delivery, *, is_late: bool) -> None:
        batch = delivery.batch
        is_reset = any(isinstance(event, Cleared) for event in batch.events)
        # What looks at the fold, or says something of it, has to see what came before.
        is_plain = not (is_late or is_reset or batch.oddities or names_no_medium(batch))
        if not is_plain:
            self._fold_waiting()
        own = self._numbers.late(seq) if is_late else self._numbers.take()
        if own is not None:
            self._seq = own * EVENTS_OF_BATCH
        self._note_oddities(batch)
        if is_late:
            batch = without_late_clears(batch, self.fold)
        batch = with_media(batch, self.fold)
        if own is None:
            self.fold.note_gap()  # nobody knows any more where it belongs
            return
        interned = self._intern(batch, own, delivery.heard.received_ns, is_late=is_late)
        if interned is None:
            return
        self._keep(interned.message, is_late=is_late)
        for event in batch.events:
            if isinstance(event, Stored):
                self._by_tokens.note(event.token_digests, event.hashes)
        if not is_plain:
            self._fold_waiting()
        if is_reset and (is_late or (self._silence.silent_s and found.begins_with_a_reset(batch.events))):
            self.findings.note(found.late_reset_finding(self.place, self._silence.silent_s, is_behind=is_late))

    def _keep(self, message: Message, *, is_late: bool) -> None:
        """Records it and has it folded soon; before the first of an epoch the state, which no message tells."""
        if self._recording.lacks_state(message):
            self._fold_waiting()
            self._recording.tell_state(self.fold, message.header)
        if not self._waiting.has_room(message):
            self._fold_waiting()
        self._waiting.add(message)
        self._recording.keep(message, is_late=is_late)

    def _fold_waiting(self) -> None:
        is_told = bool(len(self._waiting))
        for fault in _without_second_names(self._waiting.fold_into(self.fold)):
            self._note_fault(fault)
        if is_told and self.fold.returns is not None:
            self.readmissions.note(self.fold.returns, self.fold.t_ns)

    def _intern(self, batch: Batch, seq: int, received_ns: int, *, is_late: bool) -> Interned | None:
        """None: it cannot be told, and is lost."""
        try:
            return self._interning.intern(batch, seq, received_ns)
        except BadBatch as error:
            self._fold_waiting()
            self.fold.note_gap()
            if not is_late:  # else it lies in a hole, and stays missing
                self._recording.record(Missing(seq, seq, CANNOT_BE_TOLD))
            finding = found.unknown_or_partial_event_finding(self.place, batch.oddities, f"Left out: {error}")
            assert finding is not None, "there is a reason"
            self.findings.note(finding)
            return None
        except EpochIsFull:
            self._fold_waiting()
            self._begin_epoch(known=False)
            return self._interning.intern(batch, seq, received_ns)

    def _note_fault(self, fault: ResidencyFault) -> None:
        is_parents = fault.kind in ("orphan_parent", "store_on_missing_parent")
        if is_parents and len(self._missing_parents) < MAX_MISSING_PARENTS:
            self._missing_parents.add(fault.ordinal)
        if self.findings.is_full(fault.kind):
            self.findings.count(fault.kind)  # a hostile stream breaks thousands of laws a batch
        else:
            self.findings.note(fault_finding(self.place, fault, self.fold))

    def _note_oddities(self, batch: Batch) -> None:
        odd = batch.oddities
        if not odd:
            return
        for name, count in (*odd.unknown_events.items(), *odd.unknown_fields.items()):
            if name in self.oddities or len(self.oddities) < MAX_ODDITIES:
                self.oddities[name] += count
        if odd.bad_events:
            self.fold.note_gap()  # whatever they told is lost
        finding = found.unknown_or_partial_event_finding(self.place, odd)
        if finding is not None:
            self.findings.note(finding)

    def _open_gap(self, gap: GapOpened) -> None:
        self.fold.note_gap()
        finding = found.seq_gap_finding(self.place, gap)
        self.findings.note(finding)
        self._recording.record(Missing(*self._numbers.skip(gap.first, gap.last), LOST_ON_THE_WAY))
        self._gaps.open(gap.first, gap.last, finding.id)

    def _begin_epoch(self, *, known: bool) -> None:
        self.epoch += 1
        incarnation = secrets.token_hex(8)
        self._interning = Interning(self.name, self._names, self._are_gone, incarnation=incarnation)
        self.fold = ResidencyMap(
            self._interning.descriptor, source=self.name, known=known, store_semantics=self._semantics
        )
        self.fold.returns = ReturnBook()
        self.readmissions = Readmissions()
        self._missing_parents: set[int] = set()
        self._gaps.clear()
        self._recording.begin(EpochBegan(self.epoch, incarnation, self._interning.descriptor))

    def _are_gone(self, ordinals: U4) -> Bools:
        self._fold_waiting()
        return self.fold.are_gone(ordinals)


def _without_second_names(faults: list[ResidencyFault]) -> list[ResidencyFault]:
    """What has the hash of another block is no second copy of it."""
    others = {(fault.seq, fault.place) for fault in faults if fault.kind == "hash_namespace_collision"}
    return [fault for fault in faults if fault.kind != "duplicate_store" or (fault.seq, fault.place) not in others]
