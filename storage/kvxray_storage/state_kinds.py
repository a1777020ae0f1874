"""Of what an epoch tells, and so what its state is: blocks of a pool, or hashes and where they are.

An epoch is of hashes exactly if its descriptor names block sizes. It has keyframes of its own kind only.
"""

from __future__ import annotations

from typing import Final, TypeVar

import sqlalchemy as sa
from kvxray_engine.stream import residency_snapshot, snapshot
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.codec import BadMessage, decode_descriptor
from kvxray_engine.stream.hash_table import HashTable
from kvxray_engine.stream.residency_descriptor import decode_residency_descriptor
from kvxray_engine.stream.residency_map import ResidencyMap
from kvxray_engine.stream.schema import Descriptor

from kvxray_storage import models

POOL: Final = "pool"
RESIDENCY: Final = "residency"
STATE_KINDS: Final = (POOL, RESIDENCY)

EitherState = BlockMap | ResidencyMap
State = TypeVar("State", BlockMap, ResidencyMap)


def is_of_hashes(descriptor: Descriptor) -> bool:
    """Whether such an engine tells of hashes only."""
    return bool(descriptor.block_sizes)


def read_descriptor(data: bytes) -> Descriptor:
    """Of either kind. Raises `BadMessage`."""
    try:
        return decode_descriptor(data)
    except BadMessage as error:
        try:
            descriptor = decode_residency_descriptor(data)
        except BadMessage as other:
            raise (other if b'"block_sizes":[0' in data else error) from other
        return descriptor


def begin_state(descriptor: Descriptor, *, known: bool) -> EitherState:
    """The state before the first event. known: it is the engine's first, and everything is empty."""
    return ResidencyMap(descriptor, known=known) if is_of_hashes(descriptor) else BlockMap(descriptor, known=known)


def load_state(kind: str, data: bytes | memoryview) -> EitherState:
    """What a keyframe of this kind holds. Raises `BadMessage`."""
    return residency_snapshot.load(data) if kind == RESIDENCY else snapshot.load(data)


def load_hashes(kind: str, data: bytes) -> HashTable:
    """Only the bytes of its hashes. Raises `BadMessage`."""
    return residency_snapshot.load(data).hash_table if kind == RESIDENCY else snapshot.load_hashes(data)


def kind_of(state: EitherState) -> str:
    """The kind of its keyframes."""
    return RESIDENCY if isinstance(state, ResidencyMap) else POOL


def load_told(data: bytes) -> EitherState:
    """A state that says itself of what kind it is. Raises `BadMessage`."""
    return load_state(RESIDENCY if data.startswith(residency_snapshot.MAGIC) else POOL, data)


def dump_state(state: EitherState) -> bytes:
    """As `load_told` reads it."""
    return residency_snapshot.dump(state) if isinstance(state, ResidencyMap) else snapshot.dump(state)


def lose_track(state: EitherState) -> None:
    """Something that changed it is not known: blocks may be anything since; of hashes nobody says that they went."""
    if isinstance(state, ResidencyMap):
        state.note_gap()
    else:
        state.forget()


def holds_a_state() -> sa.ColumnElement[bool]:
    """The condition that a row of keyframes does."""
    return models.keyframe.c.kind.in_(STATE_KINDS)
