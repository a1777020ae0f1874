"""Where the hashes of a source are, and what can be asked of that: residents, copies, certainty, chains. Pure."""

from __future__ import annotations

from copy import copy
from enum import IntEnum
from typing import Final, Literal, Self

import numpy as np
from numpy.typing import NDArray

from kvxray_engine.stream.columns import NUM_KINDS, U4, distinct
from kvxray_engine.stream.hash_table import HashTable
from kvxray_engine.stream.key_index import U8
from kvxray_engine.stream.keyed_table import KeyedTable
from kvxray_engine.stream.residency_chains import REACHABLE, UNREACHABLE, reach
from kvxray_engine.stream.residency_descriptor import (
    ALL_MEDIA,
    FULL_KINDS,
    check_residency_descriptor,
    group_of,
    medium_of,
)
from kvxray_engine.stream.residency_faults import FaultBook, ResidencyFault
from kvxray_engine.stream.residency_hashes import unpadded
from kvxray_engine.stream.residency_names import NamesTold
from kvxray_engine.stream.residency_returns import ReturnBook
from kvxray_engine.stream.residency_rows import Bools
from kvxray_engine.stream.schema import NO_ORDINAL, UNKNOWN_U4, Descriptor

StoreSemantics = Literal["copies", "reuse", "unknown"]

GENERATION: Final = 1 << 19
"""Hash ordinals. A hash that is nowhere any more and was not mentioned for a whole generation is forgotten, here and
where hashes get their ordinals: should it come back, it has a new one.
"""

ENTRY_COLUMNS: Final = {
    "copies": ("<u4", 0),
    "sure": ("u1", 0),
    "parent": ("<u4", UNKNOWN_U4),
    "block_size": ("<u2", 0),
    "name": ("<u4", NO_ORDINAL),
    "t_first": ("<i8", 0),
    "t_last": ("<i8", 0),
    "stores": ("<u4", 0),
    "removals": ("<u4", 0),
    "reuses": ("<u4", 0),
}
"""Of a hash in a place. sure: 1 where it is there even if every repeated store was a reuse report. parent: ordinal of
a hash, NO_ORDINAL of a root, UNKNOWN_U4 not told. block_size: index. name: ordinal of that it was last stored under.
t_first: wall ns since when it is there (or was, the last time); t_last: of the last event. reuses: stores that
reported a hit.
"""
HASH_COLUMNS: Final = {"copies": ("<u4", 0), "seen": ("u1", 0), "mention": ("<u4", 0)}
"""Of a hash wherever it is. seen: it was stored once. mention: the generation in which it was last mentioned."""


class Certainty(IntEnum):
    """Whether a hash is there; `maybe` where reuse reports could explain the count."""

    gone = 0
    maybe = 1
    certain = 2


class ResidencyState:
    """Of one source in one epoch. `entries`: one row a hash and place (key: ordinal << 16 | place); `hashes`: one row a
    hash that was mentioned. `known_media`: by index, 1 where everything on that medium was told; `[ALL_MEDIA]`: also
    on those that the source has not described yet. `group_sizes`: index of the block size that each group tells.
    `returns`: what came back, for who gave it a book to note that in; it is no part of the state.
    """

    def __init__(
        self,
        descriptor: Descriptor,
        *,
        source: str = "",
        incarnation: str = "",
        known: bool = True,
        store_semantics: StoreSemantics = "unknown",
        generation_size: int = GENERATION,
    ) -> None:
        """known: the stream is heard from its first message on. generation_size: smaller in tests, everywhere."""
        check_residency_descriptor(descriptor)
        self.descriptor = descriptor
        self.source = source
        self.incarnation = incarnation
        self.store_semantics: StoreSemantics = store_semantics
        self.step = 0
        self.t_ns = 0
        self.next_seq = 0
        self.next_wire_seq = 0
        self.kind_totals = np.zeros(NUM_KINDS, np.int64)
        self.known_media = np.full(256, known, np.uint8)
        self.group_sizes = np.zeros(256, np.uint16)
        self.entries = KeyedTable(ENTRY_COLUMNS)
        self.hashes = KeyedTable(HASH_COLUMNS)
        self.hash_table = HashTable()
        self.names = NamesTold()
        self.generation_size = generation_size
        self.generation = 0
        self.returns: ReturnBook | None = None
        self._faults = FaultBook()

    def copy(self) -> Self:
        """Another state that goes its own way."""
        made = copy(self)
        made.entries, made.hashes, made.hash_table = self.entries.copy(), self.hashes.copy(), self.hash_table.copy()
        made.names, made._faults = self.names.copy(), self._faults.copy()
        made.returns = self.returns.copy() if self.returns is not None else None
        for name in ("kind_totals", "known_media", "group_sizes"):
            setattr(made, name, getattr(self, name).copy())
        return made

    @property
    def known(self) -> bool:
        """Whether everything on every medium was told."""
        return bool(self.known_media[: len(self.descriptor.pools)].all() and self.known_media[ALL_MEDIA])

    @property
    def faults_dropped(self) -> int:
        """Faults that were too many to keep."""
        return self._faults.dropped

    def take_faults(self) -> list[ResidencyFault]:
        """Broken laws seen since the last call, in order of seq."""
        return self._faults.take()

    def note_gap(self) -> None:
        """Something was lost: what is there stays (nobody says it went), but no medium is wholly told any more."""
        self.known_media[:] = 0

    def places(self) -> list[int]:
        """Places (group and medium) of which something was told and not forgotten."""
        return [int(place) for place in np.unique(self.entry_places())]

    def residents(self, place: int) -> U4:
        """Ordinals of the hashes that are there, or may be, in order."""
        is_wanted = (self.entry_places() == place) & (self.entries["copies"] > 0)
        keys = self.entries.index.keys_by_row()[is_wanted]
        return np.sort((keys >> np.uint64(16)).astype(np.uint32))

    def copies(self, ordinals: U4, place: int) -> U4:
        """How many copies of each are there."""
        rows = self.entries.index.find(keys_of(ordinals, place))
        counts: U4 = np.zeros(len(rows), np.uint32)
        counts[rows >= 0] = self.entries["copies"][rows[rows >= 0]]
        return counts

    def certainty_of(self, ordinals: U4, place: int) -> NDArray[np.uint8]:
        """`Certainty` of each hash in that place."""
        rows = self.entries.index.find(keys_of(ordinals, place))
        found = np.zeros(len(rows), np.uint8)
        at = rows[rows >= 0]
        is_there = self.entries["copies"][at] > 0
        is_sure = is_there if self.store_semantics == "copies" else self.entries["sure"][at] > 0
        found[rows >= 0] = np.where(is_there, np.where(is_sure, Certainty.certain, Certainty.maybe), Certainty.gone)
        return found

    def copies_on(self, medium: int) -> int:
        """Copies of all hashes there: blocks of the engine that hold one."""
        return int(self.entries["copies"][(self.entry_places() >> 8) == medium].sum(dtype=np.int64))

    def over_capacity(self, medium: int) -> tuple[int, int] | None:
        """(copies, blocks) where there are more copies than the medium has blocks; None where not, or not told."""
        num_blocks, held = self.descriptor.pools[medium].num_blocks, self.copies_on(medium)
        return (held, num_blocks) if 0 < num_blocks < held else None

    def reachable(self, place: int) -> U4:
        """Residents whose whole chain up to its root is there, on any medium of their group."""
        return self._reached(place, REACHABLE)

    def unreachable(self, place: int) -> U4:
        """Residents that no prompt can reach any more, since a block before them is gone. Not among them: those whose
        chain was never told whole; and none of a group that drops blocks of its chains by design (window, mamba).
        """
        if self.descriptor.groups[group_of(place)].kind not in FULL_KINDS:
            return np.zeros(0, np.uint32)
        return self._reached(place, UNREACHABLE)

    def ordinals_in_use(self) -> U4:
        """Hashes that are, or may be, somewhere, and the parents of those."""
        is_there = self.entries["copies"] > 0
        here = (self.entries.index.keys_by_row()[is_there] >> np.uint64(16)).astype(np.uint32)
        parents = self.entries["parent"][is_there]
        return distinct(np.concatenate([here, parents[parents < UNKNOWN_U4]]))

    def are_gone(self, ordinals: U4) -> Bools:
        """Which of these hashes are on no medium, in no group."""
        rows = self.hashes.index.find(ordinals.astype(np.uint64))
        gone = np.ones(len(rows), bool)
        gone[rows >= 0] = self.hashes["copies"][rows[rows >= 0]] == 0
        return gone

    def ordinals_of(self, block_hash: bytes) -> list[int]:
        """Under which ordinals this hash was told, in order: more than one where it was forgotten in between."""
        return self.hash_table.ordinals_of(block_hash.rjust(self.hash_table.width, b"\0"))

    def hash_bytes(self, ordinal: int) -> bytes | None:
        """The hash as it was told; None when it is not known any more."""
        data = self.hash_table.get(ordinal)
        return None if data is None else unpadded(data)

    def entry_places(self) -> NDArray[np.uint16]:
        """The place of every entry, by row."""
        return (self.entries.index.keys_by_row() & np.uint64(0xFFFF)).astype(np.uint16)

    def check_integrity(self, *, with_hashes: bool = True) -> None:
        """Asserts the laws: a hash is everywhere as often as in all its places together, is surely there only where it
        is there, and has its bytes. with_hashes False: the fold began without them.
        """
        entries, keys = self.entries, self.entries.index.keys_by_row()
        entries.index.check_integrity()
        self.hashes.index.check_integrity()
        assert (entries["sure"] <= np.minimum(entries["copies"], 1)).all(), "a hash is surely there and is not"
        assert (entries["copies"] <= entries["stores"]).all(), "a hash has more copies than were stored"
        rows = self.hashes.index.find(keys >> np.uint64(16))
        assert (rows >= 0).all(), "an entry is of a hash that was never mentioned"
        totals = np.bincount(rows, entries["copies"], len(self.hashes)).astype(np.int64)
        assert (totals == self.hashes["copies"]).all(), "copies everywhere are not the sum over the places"
        assert self.hashes["seen"][totals > 0].all(), "a hash is there that was never stored"
        assert all(map(self._is_described, self.places())), "an entry is in a place that was never described"
        for ordinal in self.hashes.index.keys_by_row().tolist() if with_hashes else ():
            assert self.hash_table.get(ordinal) is not None, f"hash {ordinal} was mentioned but its bytes are not known"

    def _is_described(self, place: int) -> bool:
        return group_of(place) < len(self.descriptor.groups) and medium_of(place) < len(self.descriptor.pools)

    def _reached(self, place: int, wanted: int) -> U4:
        ordinals, parents, is_there = self._chains(group_of(place))
        found = reach(ordinals, parents, is_there, is_all_told=self.known)
        here = self.residents(place)
        reached: U4 = here[found[np.searchsorted(ordinals, here)] == wanted]
        return reached

    def _chains(self, group: int) -> tuple[U4, U4, Bools]:
        """Each hash of a group once, its parent as any medium told it, and whether it is on any medium."""
        keys = self.entries.index.keys_by_row()
        rows = np.flatnonzero((keys & np.uint64(0xFF)) == group)
        rows = rows[np.argsort(keys[rows])]
        ordinals = (keys[rows] >> np.uint64(16)).astype(np.uint32)
        starts = first_of_each(ordinals)
        if not len(starts):
            return ordinals, ordinals, np.zeros(0, bool)
        # A root is the largest number, "not told" the next: one less than all ordinals, so that the least tells most.
        parents = self.entries["parent"][rows].astype(np.int64)
        parents[parents == NO_ORDINAL] = -1
        least = np.minimum.reduceat(parents, starts)
        least[least < 0] = NO_ORDINAL
        is_there = np.logical_or.reduceat(self.entries["copies"][rows] > 0, starts)
        return ordinals[starts], least.astype(np.uint32), is_there


def keys_of(ordinals: U4, place: int) -> U8:
    """Keys of these hashes in that place."""
    keys: U8 = ordinals.astype(np.uint64) << np.uint64(16) | np.uint64(place)
    return keys


def first_of_each(in_order: NDArray[np.uint64] | U4) -> NDArray[np.intp]:
    """Where each number begins, of numbers that are in order."""
    is_first = np.ones(len(in_order), bool)
    np.not_equal(in_order[1:], in_order[:-1], out=is_first[1:])
    return np.flatnonzero(is_first)
