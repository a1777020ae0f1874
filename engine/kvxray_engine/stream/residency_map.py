"""The fold of an engine that tells of hashes only: which are where, in how many copies, in which chain. Pure.

Events tell changes, not the state after them, so copies are counted (a set is wrong: an engine stores one hash several
times and removes its copies one by one) and never fall below none. One message is a few sorted array operations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvxray_engine.stream.codec import Message
from kvxray_engine.stream.columns import I8, U4, Columns
from kvxray_engine.stream.event_times import timing_of
from kvxray_engine.stream.key_index import U8
from kvxray_engine.stream.residency_check import described_events
from kvxray_engine.stream.residency_descriptor import ALL_MEDIA, FULL_KINDS
from kvxray_engine.stream.residency_faults import FaultKind, ResidencyFault
from kvxray_engine.stream.residency_hashes import added
from kvxray_engine.stream.residency_rows import Bools, Index, ResidencyRows, Segment, running_counts, segments_of
from kvxray_engine.stream.residency_sizes import size_faults
from kvxray_engine.stream.residency_state import ResidencyState, first_of_each
from kvxray_engine.stream.schema import NO_ORDINAL, UNKNOWN_U4, Cause, Descriptor, Header, Kind

_LOW: Final = np.uint64(0xFFFFFFFF)
_HALF: Final = np.uint64(32)


class ResidencyMap(ResidencyState):
    """State of all hashes of one source in one epoch, after every event."""

    def apply(self, message: Message) -> U8:
        """Folds one message (or several joined); returns the keys of the entries it touched, in order, each once.

        Raises `BadMessage`, and changes nothing, for what is no message of such a stream.
        """
        header, columns = message.header, message.columns
        self.descriptor = self.check_events(header, columns)
        self._begin_generation(header.hash0 // self.generation_size)
        self._add_hashes(header, columns)
        self.names.add(header.req0, header.names)
        times = timing_of(message).times
        touched = [self._fold(segment) for segment in segments_of(columns, times, header.seq0)]
        self._check_sizes(columns, times, header.seq0)
        self.kind_totals += columns.kind_counts()
        self._note_end(message)
        if len(times):
            self.t_ns = int(times[-1])
        if len(times) and columns.cause[0] == Cause.error and columns.kind[0] == Kind.StepStarted:
            self.note_gap()  # the batch could not be read whole
        self.hash_table.thin(self._ordinals_mentioned)
        self.names.thin(self._names_in_use)
        return np.unique(np.concatenate([*touched, np.zeros(0, np.uint64)]))

    def check_events(self, header: Header, columns: Columns) -> Descriptor:
        """The descriptor that holds for these events, as `described_events` tells it."""
        return described_events(header, columns, self.descriptor)

    def _add_hashes(self, header: Header, columns: Columns) -> None:
        """Every hash is mentioned in the message that tells its bytes."""
        self.hash_table = added(self.hash_table, header.hash0, columns.hashes, header.hash_width)
        told = header.hash0 + np.arange(len(columns.hashes) // header.hash_width, dtype=np.uint64)
        rows = self.hashes.rows_of(told)
        self.hashes["mention"][rows] = self.generation

    def _fold(self, segment: Segment) -> U8:
        if segment.cleared is not None:
            return self._clear(segment.cleared, segment.t)
        rows = self._in_every_group(segment.rows) if segment.is_any_group else segment.rows
        return self._fold_rows(rows) if len(rows) else np.zeros(0, np.uint64)

    def _fold_rows(self, rows: ResidencyRows) -> U8:
        keys = rows.keys
        order = np.argsort(keys, kind="stable")
        in_order = keys[order]
        starts = first_of_each(in_order)
        entries = self.entries.rows_of(in_order[starts])
        at = np.empty(len(rows), np.int64)
        at[order] = np.repeat(entries, np.diff(starts, append=len(rows)))
        before, after = self._count(rows, order, starts, entries)
        if self.returns is not None:
            self.returns.note(rows, order, starts, before, after, self.entries, entries)
        reports = self._note_repeats(rows, before)
        self._note_collisions(rows, at)
        self._count_everywhere(rows, after - before)
        self._write_entries(rows, at, before, reports)
        return in_order[starts]

    def _count(self, rows: ResidencyRows, order: Index, starts: Index, entries: I8) -> tuple[I8, I8]:
        """Brings copies up to date; those before and after each row, in the order of rows."""
        is_store, is_report = rows.is_store[order], rows.cause[order] == Cause.reuse_report
        if self.store_semantics == "reuse":
            is_report = is_store
        ends = np.append(starts[1:], len(order)) - 1
        before, after = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
        for column, is_idle in (("sure", is_store), ("copies", is_report)):
            steps = np.where(is_store, np.where(is_idle, 0, 1), -1)
            told = self.entries[column][entries].astype(np.int64)
            before[order], after[order] = running_counts(starts, told, steps, is_store.astype(np.int64))
            self.entries[column][entries] = after[order[ends]]
        return before, after

    def _note_repeats(self, rows: ResidencyRows, before: I8) -> Bools:
        """Faults of counting; which rows reported a hit: they said so, or (unknown semantics) a chain was told from its
        root on of which every block was there.
        """
        self._note_faults("remove_unknown", rows, np.flatnonzero(~rows.is_store & (before == 0)))
        is_repeat = rows.is_store & (before > 0)
        reports: Bools = is_repeat & ((rows.cause == Cause.reuse_report) | (self.store_semantics == "reuse"))
        if self.store_semantics == "unknown" and is_repeat.any():
            first = np.flatnonzero(rows.is_first)
            is_whole = np.logical_and.reduceat(is_repeat, first) & (rows.parent[first] == NO_ORDINAL)
            reports |= np.repeat(is_whole, np.diff(first, append=len(rows)))
            is_copy = is_repeat & ~reports & (rows.cause != Cause.placeholder)
            self._note_faults("duplicate_store", rows, np.flatnonzero(is_copy))
        return reports

    def _note_collisions(self, rows: ResidencyRows, at: I8) -> None:
        """The same hash on another parent, or in another namespace: it cannot be the same blocks."""
        stored = np.flatnonzero(rows.is_store)
        before, parent = self.entries["parent"][at[stored]], rows.parent[stored]
        is_full = np.array([group.kind in FULL_KINDS for group in self.descriptor.groups])
        is_other = (before < UNKNOWN_U4) & (parent < UNKNOWN_U4) & (before != parent)
        is_other &= is_full[rows.place[stored] & 0xFF]
        is_other |= self.names.differ(self.entries["name"][at[stored]], rows.req[stored])
        self._note_faults("hash_namespace_collision", rows, stored[is_other])

    def _count_everywhere(self, rows: ResidencyRows, changes: I8) -> None:
        """Copies of each hash in all places, in order of time; and the stores whose parent is nowhere by then."""
        asked = np.flatnonzero(_asks_parent(rows))
        mentioned = np.unique(np.concatenate([rows.ordinal, rows.parent[asked]])).astype(np.uint64)
        rows_mentioned = self.hashes.rows_of(mentioned)
        self.hashes["mention"][rows_mentioned] = self.generation
        course = self._course(rows, changes)
        if len(asked):
            self._note_missing(rows, asked, course)
        self.hashes["copies"][course.hash_rows] = course.copies[course.ends]
        self.hashes["seen"][course.hash_rows] = course.stores[course.ends] > 0

    def _course(self, rows: ResidencyRows, changes: I8) -> _Course:
        keys = np.sort(rows.ordinal.astype(np.uint64) << _HALF | np.arange(len(rows), dtype=np.uint64))
        at = (keys & _LOW).astype(np.int64)
        ordinals = keys >> _HALF
        starts = first_of_each(ordinals)
        hash_rows = self.hashes.index.find(ordinals[starts])
        copies = _running_sums(changes[at], starts, self.hashes["copies"][hash_rows])
        stores = _running_sums(rows.is_store[at].astype(np.int64), starts, self.hashes["seen"][hash_rows])
        return _Course(keys, copies, stores, np.append(starts[1:], len(keys)) - 1, hash_rows)

    def _note_missing(self, rows: ResidencyRows, asked: Index, course: _Course) -> None:
        parents = rows.parent[asked].astype(np.uint64)
        told = self.hashes.index.find(parents)
        last = np.searchsorted(course.keys, parents << _HALF | asked.astype(np.uint64)) - 1
        is_here = (last >= 0) & (course.keys[last] >> _HALF == parents)
        copies = np.where(is_here, course.copies[last], self.hashes["copies"][told])
        stores = np.where(is_here, course.stores[last], self.hashes["seen"][told])
        self._note_faults("store_on_missing_parent", rows, asked[(copies == 0) & (stores > 0)])
        self._note_faults("orphan_parent", rows, asked[(copies == 0) & (stores == 0)])

    def _write_entries(self, rows: ResidencyRows, at: I8, before: I8, reports: Bools) -> None:
        """What each row says of its entry `at`; rows are in order of time, so the last one counts."""
        entries, stored = self.entries, rows.is_store
        came = stored & (before == 0)
        entries["t_first"][at[came]] = rows.t[came]
        entries["t_last"][at] = rows.t
        for column, is_one in (("stores", stored), ("removals", ~stored), ("reuses", reports)):
            np.add.at(entries[column], at[is_one], np.uint32(1))
        for column, values, is_told in (
            ("parent", rows.parent, rows.parent != UNKNOWN_U4),
            ("block_size", rows.block_size, rows.block_size > 0),
            ("name", rows.req, rows.req != NO_ORDINAL),
        ):
            tells = stored & is_told
            entries[column][at[tells]] = values[tells]

    def _in_every_group(self, rows: ResidencyRows) -> ResidencyRows:
        """Removals that name no group, as one from each group that has the hash before them; from the first group where
        none does.
        """
        num_groups = len(self.descriptor.groups)
        has = np.zeros((len(rows), num_groups), bool)
        media = rows.place & 0xFF00
        for group in range(num_groups):
            rows.place = (media | group).astype(np.uint16)
            found = self.entries.index.find(rows.keys)
            told = found >= 0
            has[told, group] = self.entries["copies"][found[told]] > 0
        has[~has.any(axis=1), 0] = True
        at, groups = np.nonzero(has)
        taken = rows.take(at)
        taken.place = (media[at] | groups).astype(np.uint16)
        return taken

    def _clear(self, medium: int, t_ns: int) -> U8:
        is_there = self.entries["copies"] > 0
        if medium != ALL_MEDIA:
            is_there &= (self.entry_places() >> 8) == medium
        rows = np.flatnonzero(is_there)
        keys = self.entries.index.keys_by_row()[rows]
        at = self.hashes.index.find(keys >> np.uint64(16))
        np.subtract.at(self.hashes["copies"], at, self.entries["copies"][rows])
        self.entries["copies"][rows], self.entries["sure"][rows] = 0, 0
        self.entries["t_last"][rows] = t_ns
        self.known_media[slice(None) if medium == ALL_MEDIA else medium] = 1
        if self.returns is not None:
            self.returns.clear(medium, t_ns)
        return np.sort(keys)

    def _begin_generation(self, generation: int) -> None:
        """Forgets what has been nowhere and unmentioned for a whole generation."""
        if generation <= self.generation:
            return
        self.generation = generation
        is_kept = (self.hashes["copies"] > 0) | (self.hashes["mention"].astype(np.int64) > generation - 2)
        if is_kept.all():
            return
        owners = self.hashes.index.find(self.entries.index.keys_by_row() >> np.uint64(16))
        self.entries.keep(is_kept[owners])
        self.hashes.keep(is_kept)
        self.hash_table.keep(self._ordinals_mentioned())

    def _ordinals_mentioned(self) -> U4:
        return self.hashes.index.keys_by_row().astype(np.uint32)

    def _names_in_use(self) -> U4:
        return np.unique(self.entries["name"])

    def _check_sizes(self, columns: Columns, times: I8, seq0: int) -> None:
        found = size_faults(columns, self.descriptor, self.group_sizes)
        if not found:
            return
        events = columns.events_by_operation()
        seqs = seq0 + np.cumsum(events) - events
        for fault in found:
            operation = fault.operation
            place = int(columns.a1[operation]) & 0xFFFF
            is_certain = bool(self.known_media[place >> 8])
            seq, t_ns = int(seqs[operation]), int(times[operation])
            self._faults.note(
                ResidencyFault(fault.kind, NO_ORDINAL, place, seq, t_ns, is_certain, fault.before, fault.after)
            )

    def _note_faults(self, kind: FaultKind, rows: ResidencyRows, at: Index) -> None:
        if len(at):
            self._faults.note_rows(kind, rows, at, self.known_media.tobytes())

    def _note_end(self, message: Message) -> None:
        header = message.header
        self.source, self.incarnation, self.step = header.source, header.incarnation, header.step
        self.next_wire_seq = header.wire_seq + 1
        self.next_seq = message.end_seq


@dataclass(slots=True, eq=False)
class _Course:
    """How often each hash is anywhere after each row, sorted by hash and then by time. `keys`: ordinal << 32 | row.
    `stores`: how often it was stored so far, 1 for all before this batch. `ends`: the last row of each hash.
    """

    keys: U8
    copies: I8
    stores: I8
    ends: Index
    hash_rows: I8


def _asks_parent(rows: ResidencyRows) -> Bools:
    """Stores on a parent that was told and is not the row before, which is there by then."""
    is_told = rows.is_store & (rows.parent < UNKNOWN_U4) & (rows.cause != Cause.placeholder)
    is_row_before = np.zeros(len(rows), bool)
    is_row_before[1:] = (rows.ordinal[:-1] == rows.parent[1:]) & (rows.operation[:-1] == rows.operation[1:])
    found: Bools = is_told & ~is_row_before
    return found


def _running_sums(steps: I8, starts: Index, at_first: NDArray[np.uint8] | U4) -> I8:
    """Sums after each row, one key after the other, from what each key had."""
    sums = np.cumsum(steps)
    offsets = at_first - (sums - steps)[starts]
    found: I8 = sums + np.repeat(offsets, np.diff(starts, append=len(steps)))
    return found
