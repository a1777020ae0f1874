"""Runs the analyses of one source as its state moves on, and keeps the book of what they find.

Used by the source's thread alone. What it calls is pure; what it decides is only when to call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from kvxray_engine.clock import Clock
from kvxray_engine.stream.block_map import Fault
from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.holder_log import ANONYMOUS
from kvxray_engine.stream.schema import NO_ORDINAL, Totals

from kvxray_backend.analysis.admission import stuck_finding
from kvxray_backend.analysis.block_thrash import block_thrash_finding
from kvxray_backend.analysis.conservation import audit_finding, can_add_up, ref_mismatch_finding
from kvxray_backend.analysis.cross_tenants import cross_tenant_finding
from kvxray_backend.analysis.finding import Finding
from kvxray_backend.analysis.findings_book import FindingsBook
from kvxray_backend.analysis.leaks import name_of
from kvxray_backend.analysis.open_findings import OpenFindings
from kvxray_backend.analysis.open_leaks import OpenLeaks
from kvxray_backend.analysis.pins import find_stuck_pins
from kvxray_backend.analysis.preemptions import PreemptionStreaks, loop_findings
from kvxray_backend.analysis.stale_hit import stale_hit_finding
from kvxray_backend.analysis.stream_health import (
    Place,
    drops_finding,
    fault_finding,
    gap_finding,
    malformed_finding,
    no_snapshot_finding,
    restart_finding,
    stale_finding,
    storage_finding,
)
from kvxray_backend.live_state import LiveState
from kvxray_backend.sources.sequencer import Gap

INSPECT_EVERY_NS: Final = 500_000_000
ONE_PART_OF: Final = 20
"""An inspection takes one part of so many of the time: with thousands of leaks it takes 50 ms and more."""
AUDIT_EVERY_NS: Final = 1_000_000_000
MAX_FAULTS_TOLD: Final = 100

# They are about what one life of the engine holds, and over with it.
_OF_AN_EPOCH: Final = (
    "leak",
    "stuck_pin",
    "cross_tenant_prefix",
    "gap",
    "no_snapshot",
    "audit",
    "ref_mismatch",
    "preemption_loop",
    "admission_stuck",
    "thrash",
)
# What a snapshot makes good.
_UNTIL_EXACT: Final = ("gap", "no_snapshot", "audit", "ref_mismatch")


@dataclass(frozen=True, slots=True)
class Begun:
    """When a life of the engine was first heard, by its clock and by ours; wall ns."""

    told_ns: int
    heard_ns: int


class Inspector:
    """`live.findings` is what the book has open, `live.leaks` what was found last."""

    def __init__(
        self,
        live: LiveState,
        clock: Clock,
        store: Callable[[Finding], object],
        still_open: Iterable[Finding] = (),
        storage_failure: Callable[[], str | None] = lambda: None,
    ) -> None:
        """store: takes every change of a finding. still_open: what an earlier process left open. storage_failure: a
        sentence while the event log cannot write.
        """
        self._live = live
        self._clock = clock
        self._storage_failure = storage_failure
        self._book = FindingsBook(store, still_open)
        self._leaks = OpenLeaks(self._book)
        self._preemptions = PreemptionStreaks()
        self._is_due = False
        self._inspected_ns = 0
        self._pause_ns = INSPECT_EVERY_NS
        self._audited_ns = 0
        self._to_audit: tuple[int, Totals] | None = None
        self._bad_reason = ""
        self._told = (0, 0)
        self._faults_told = Counter[str]()
        self._publish()

    def began(self, begun: Begun, earlier_ns: int, *, is_new_epoch: bool, is_exact: bool, is_asked: bool) -> None:
        """A source was joined: by a snapshot, or with blocks unknown. earlier_ns: the last time that the life followed
        before has told; 0 = none was. is_asked: a snapshot was asked for.
        """
        self._to_audit = None
        self._preemptions.forget()
        self._faults_told.clear()
        self._told = (0, self._told[1])
        place = self._place()
        self._book.end_other_epochs(place.epoch, _OF_AN_EPOCH, earlier_ns or begun.told_ns)
        if is_exact:
            self._end(*_UNTIL_EXACT)
        else:
            self._book.reconcile("no_snapshot", [no_snapshot_finding(place, is_asked=is_asked)], place.t_ns)
        self._book.end_kinds(("stale",), begun.heard_ns)
        if is_new_epoch and place.epoch > 1:
            self._book.note(restart_finding(place, begun.told_ns))
        self._is_due = True
        self._publish()

    def heard(self, now_ns: int) -> None:
        """The engine speaks: time moves on. now_ns: wall."""
        self._is_due = True
        if self._book.has("stale"):
            self._book.end_kinds(("stale",), now_ns)
            self._publish()

    def silent(self, since_ns: int) -> None:
        """Nothing has been heard since `since_ns` (wall). What is said of the last minute is not so any more."""
        self._book.note(stale_finding(self._place(), since_ns))
        self._end("thrash")
        self._publish()

    def folded(self, message: Message, faults: Iterable[Fault]) -> None:
        """A message was folded."""
        header = message.header
        self._is_due = True
        self._preemptions.note(message)
        self._to_audit = (header.wire_seq, header.totals) if header.totals is not None else None
        for fault in faults:
            self._faults_told[fault.kind] += 1
            if self._faults_told[fault.kind] <= MAX_FAULTS_TOLD:
                self._book.note(self._fault_finding(fault))

    def lost(self, gap: Gap) -> None:
        """Messages are lost for good: what they changed is unknown until a snapshot."""
        self._live.counters.gaps += 1
        self._to_audit = None
        self._preemptions.forget()
        self._book.note(gap_finding(self._place(), gap))
        self._publish()

    def exact_again(self) -> None:
        """A snapshot has taken the place of what was unknown."""
        self._to_audit = None
        self._end(*_UNTIL_EXACT)
        self._is_due = True
        self._publish()

    def bad_message(self, reason: str) -> None:
        """Something that cannot be read has arrived; told with the next inspection."""
        self._live.counters.bad_messages += 1
        self._bad_reason = reason
        self._is_due = True

    def inspect(self, now_ns: int) -> None:
        """Looks for what is wrong, at most twice a second, for at most a twentieth of the time, and only if something
        was heard. now_ns: monotonic.
        """
        if not self._is_due or now_ns - self._inspected_ns < self._pause_ns:
            return
        began_ns = self._clock.mono_ns()
        self._is_due, self._inspected_ns = False, now_ns
        self._tell_losses()
        self._look_at_storage()
        with self._live.lock:
            self._look_for_leaks()
            self._look_at_pins()
            self._look_at_tenants()
            self._look_at_requests()
            self._look_for_thrash()
            if now_ns - self._audited_ns >= AUDIT_EVERY_NS:
                self._audited_ns = now_ns
                self._audit()
            self._publish()
        self._live.looked_ns = self._clock.wall_ns()
        self._pause_ns = max(INSPECT_EVERY_NS, ONE_PART_OF * (self._clock.mono_ns() - began_ns))

    def _look_at_storage(self) -> None:
        place, failure = self._place(), self._storage_failure()
        self._book.reconcile("storage", [storage_finding(place, failure)] if failure else [], place.t_ns)

    def _look_for_leaks(self) -> None:
        block_map, place = self._live.block_map, self._place()
        if block_map is None:
            return
        self._live.mark_leaks(self._leaks.look(place, block_map, self._live.engine_time))

    def _look_at_pins(self) -> None:
        block_map, place = self._live.block_map, self._place()
        if block_map is None:
            return
        pins, size = find_stuck_pins(block_map, self._live.engine_time), block_map.descriptor.bytes_per_block
        found = [pin.finding(place, self._live.engine_time.t_ns, size) for pin in pins]
        self._book.reconcile("stuck_pin", found, place.t_ns, is_all=block_map.holders_known)

    def _look_at_tenants(self) -> None:
        block_map, place = self._live.block_map, self._place()
        if block_map is None:
            return
        found = cross_tenant_finding(place, block_map)
        self._book.reconcile(
            "cross_tenant_prefix", [found] if found else [], place.t_ns, is_all=block_map.holders_known
        )

    def _look_at_requests(self) -> None:
        block_map, place = self._live.block_map, self._place()
        if block_map is None:
            return
        loops = loop_findings(place, block_map.requests, self._preemptions.loops())
        self._book.reconcile("preemption_loop", loops, place.t_ns)
        stuck = stuck_finding(place, block_map, self._live.engine_time)
        self._book.reconcile("admission_stuck", [stuck] if stuck else [], place.t_ns)

    def _look_for_thrash(self) -> None:
        block_map, lives, place = self._live.block_map, self._live.lives, self._place()
        if block_map is None or lives is None:
            return
        found = block_thrash_finding(place, block_map, lives)
        self._book.reconcile("thrash", [found] if found else [], place.t_ns)

    def _fault_finding(self, fault: Fault) -> Finding:
        who, given = self._name_of(fault.holder), fault.given
        if given is None:
            return fault_finding(self._place(), fault, who)
        return stale_hit_finding(self._place(), fault, given, who, self._name_of(given.holder))

    def _name_of(self, holder: int) -> str:
        block_map = self._live.block_map
        return "" if block_map is None or holder in (ANONYMOUS, NO_ORDINAL) else name_of(block_map, holder)

    def _audit(self) -> None:
        """What was found stays while too much is unknown to find it again."""
        block_map, place = self._live.block_map, self._place()
        if block_map is None or not can_add_up(block_map):
            return
        mismatch = ref_mismatch_finding(place, block_map)
        self._book.reconcile("ref_mismatch", [mismatch] if mismatch else [], place.t_ns)
        if self._to_audit is None or block_map.next_wire_seq != self._to_audit[0] + 1:
            return
        finding = audit_finding(place, block_map, self._to_audit[1])
        self._book.reconcile("audit", [finding] if finding else [], place.t_ns)

    def _tell_losses(self) -> None:
        """Drops and bad messages are counters: what has grown since the last time is told anew."""
        drops, bad = self._live.counters.drops, self._live.counters.bad_messages
        if drops > self._told[0]:
            self._book.note(drops_finding(self._place(), drops))
        if bad > self._told[1]:
            self._book.note(malformed_finding(self._place(), bad, self._bad_reason))
        self._told = (drops, bad)

    def _end(self, *kinds: str) -> None:
        self._book.end_kinds(kinds, self._place().t_ns)

    def _publish(self) -> None:
        before, found, aged = self._live.open_findings, self._book.open, self._book.aged
        if found is not before.found or aged is not None:
            self._live.open_findings = OpenFindings(found, aged)

    def _place(self) -> Place:
        live = self._live
        t_ns = live.engine_time.t_ns or self._clock.wall_ns()
        return Place(live.source, live.epoch or 0, live.seq if live.seq is not None else 0, t_ns)
