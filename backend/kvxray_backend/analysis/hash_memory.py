"""Which hashes are cached, in how many blocks, and of those that are not since when and why. Bounded: of what is gone
the oldest is forgotten first, and it says up to when.

Hashes are told apart by 64 bits made of all their bytes (`keys_of`). They are found in a table with open addresses: a
dictionary costs as much a hash as the whole fold does a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
from kvxray_engine.stream.columns import I8
from kvxray_engine.stream.key_index import U8
from numpy.typing import NDArray

MAX_GONE: Final = 1 << 18
"""Hashes that are not cached any more."""
_CAPACITY: Final = 1024
_FULL: Final = 0.6
_ROOM: Final = 2.5
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)

Bools = NDArray[np.bool_]
Index = NDArray[np.intp]


class Seen(IntEnum):
    """What was known of a hash just before it was cached."""

    never = 0
    evicted = 1
    dropped = 2
    cached = 3


_NEVER, _EVICTED, _DROPPED, _CACHED = (int(one) for one in Seen)


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """Hashes that were cached (else given up), in the order of events. is_room: given up to make room; else they were
    taken away on purpose, which nobody regrets.
    """

    keys: U8
    t_ns: I8
    is_cached: Bools
    is_room: Bools


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """One entry a change. seen, gone_ns: of those cached. is_last: of those given up, whether no copy is left."""

    seen: NDArray[np.uint8]
    gone_ns: I8
    is_last: Bools


def keys_of(hashes: bytes | memoryview, width: int) -> U8:
    """One key a hash; never 0, which stands for none."""
    words = np.frombuffer(hashes, "<u8").reshape(-1, width // 8)
    keys = words[:, 0].astype(np.uint64)
    for column in range(1, words.shape[1]):
        keys = (keys ^ (keys >> np.uint64(29))) * _SPREAD + words[:, column]
    return np.maximum(keys, np.uint64(1))


class HashMemory:
    """Of one epoch. `forgotten_ns`: when the youngest of those forgotten had gone; -1 none was."""

    def __init__(self, max_gone: int = MAX_GONE) -> None:
        self.forgotten_ns = -1
        self._max_gone = max_gone
        self._used = 0
        self._clear(_CAPACITY)

    def _clear(self, capacity: int) -> None:
        self._keys: U8 = np.zeros(capacity, np.uint64)
        self._copies = np.zeros(capacity, np.int32)
        # When its last copy went: below 0, where it was dropped; 0 while it never did.
        self._gone_ns: I8 = np.zeros(capacity, np.int64)
        self._mark = np.zeros(capacity, np.int32)
        """Nothing between two calls."""
        self._shift = np.uint64(64 - (capacity.bit_length() - 1))
        self._used = 0

    def begin(self, keys: U8) -> None:
        """These are cached from the beginning on, one entry a copy."""
        slots = self._slots(keys)
        np.add.at(self._copies, slots, 1)

    def note(self, changes: Changes) -> Told:
        """Folds changes, whatever hashes they repeat."""
        slots = self._slots(changes.keys)
        t = np.where(changes.is_room, changes.t_ns, -changes.t_ns)
        told = Told(np.zeros(len(t), np.uint8), np.zeros(len(t), np.int64), np.zeros(len(t), bool))
        often = self._told_often(slots)
        once = np.flatnonzero(~often)
        self._note_sorted(slots[once], once, changes.is_cached[once], t[once], None, told)
        again = np.flatnonzero(often)
        if len(again):
            again = again[_order(slots[again])]
            slot = slots[again]
            first = np.concatenate(([True], slot[1:] != slot[:-1]))
            group = np.maximum.accumulate(np.where(first, np.arange(len(slot)), 0))
            self._note_sorted(slot, again, changes.is_cached[again], t[again], group, told)
        return told

    def _told_often(self, slots: Index) -> Bools:
        """Whether the hash of each is among them more than once."""
        self._mark[slots] = np.arange(len(slots), dtype=np.int32)
        is_last = self._mark[slots] == np.arange(len(slots), dtype=np.int32)
        self._mark[slots] = 0
        self._mark[slots[~is_last]] = 1
        often: Bools = self._mark[slots] == 1
        return often

    def _note_sorted(self, slot: Index, rows: Index, cached: Bools, t: I8, group: Index | None, told: Told) -> None:
        """rows: where they are in `told`. group: for each where those of its hash begin, which stand together; None: no
        hash is there twice.
        """
        delta = np.where(cached, 1, -1)
        before = self._copies[slot].astype(np.int64)
        is_last = ~cached & (before == 1)
        gone = self._gone_ns[slot]
        if group is not None:
            total = np.cumsum(delta)
            before += total - delta - (total[group] - delta[group])
            is_last = ~cached & (before == 1)
            gone = _last_gone(is_last, group, t, gone)
        seen = np.where(before > 0, _CACHED, np.where(gone > 0, _EVICTED, np.where(gone < 0, _DROPPED, _NEVER)))
        self._copies[slot] = np.maximum(before + delta, 0)  # in order: the last of each hash is what stays
        self._gone_ns[slot[is_last]] = t[is_last]
        told.seen[rows], told.gone_ns[rows], told.is_last[rows] = seen, np.abs(gone), is_last

    def drop_all(self, keys: U8, t_ns: int) -> None:
        """One copy each of these is taken away on purpose."""
        none = np.zeros(len(keys), bool)
        self.note(Changes(keys, np.full(len(keys), t_ns), none, none))

    def copies(self, keys: U8) -> NDArray[np.int32]:
        found: NDArray[np.int32] = self._copies[self._slots(keys)]
        return found

    def check_integrity(self) -> None:
        """Asserts that every key is found where it is, and that the table is bounded."""
        held = np.flatnonzero(self._keys)
        assert len(held) == self._used <= _FULL * len(self._keys), "the table is full, or miscounts"
        assert (self._find_or_add(self._keys[held]) == held).all(), "a hash is not found where it is"
        assert (self._copies >= 0).all(), "fewer copies than none"

    def _slots(self, keys: U8) -> Index:
        """The place of each key; new ones get theirs."""
        if self._used + len(keys) > _FULL * len(self._keys):
            self._rebuild(len(keys))
        return self._find_or_add(keys)

    def _find_or_add(self, keys: U8) -> Index:
        slots = ((keys * _SPREAD) >> self._shift).astype(np.intp)
        open_ = np.flatnonzero(self._keys[slots] != keys)
        while len(open_):
            at, wanted = slots[open_], keys[open_]
            free = np.flatnonzero(self._keys[at] == 0)
            if len(free):
                # Of several that want one place the last gets it: whoever finds another there looks on.
                self._keys[at[free]] = wanted[free]
                self._used += self._num_places(at[free])
            is_elsewhere = self._keys[at] != wanted
            open_, at = open_[is_elsewhere], at[is_elsewhere]
            slots[open_] = (at + 1) & (len(self._keys) - 1)
        return slots

    def _num_places(self, at: Index) -> int:
        order = np.arange(len(at), dtype=np.int32)
        self._mark[at] = order
        return int(np.count_nonzero(self._mark[at] == order))

    def _rebuild(self, more: int) -> None:
        """Anew, with room for so many more, without what has been gone longest."""
        held = np.flatnonzero(self._keys)
        gone = held[self._copies[held] == 0]
        if len(gone) > self._max_gone:
            oldest = np.argsort(np.abs(self._gone_ns[gone]))[: len(gone) - self._max_gone * 3 // 4]
            self.forgotten_ns = max(self.forgotten_ns, int(np.abs(self._gone_ns[gone[oldest]]).max()))
            held = np.setdiff1d(held, gone[oldest], assume_unique=True)
        keys, copies, gone_ns = self._keys[held], self._copies[held], self._gone_ns[held]
        self._clear(max(_CAPACITY, 1 << int(_ROOM * (len(held) + more)).bit_length()))
        slots = self._find_or_add(keys)
        self._copies[slots], self._gone_ns[slots] = copies, gone_ns


def _order(slots: Index) -> Index:
    """Sorted by slot and then by place, in one number: faster than any stable sort."""
    both = np.sort((slots.astype(np.uint64) << np.uint64(32)) | np.arange(len(slots), dtype=np.uint64))
    return both.astype(np.uint32).astype(np.intp)


def _last_gone(is_last: Bools, group: Index, t: I8, gone_ns: I8) -> I8:
    """For each change when its hash went last before it: among these changes, or before all of them."""
    at = np.maximum.accumulate(np.where(is_last, np.arange(len(t)), -1))
    above = np.concatenate(([-1], at[:-1]))
    return np.where(above >= group, t[above], gone_ns)
