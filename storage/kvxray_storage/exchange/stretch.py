"""Which part of an epoch somebody means: a stretch of its events, widened to whole messages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import sqlalchemy as sa
from kvxray_engine.stream.codec import Message

from kvxray_storage import models
from kvxray_storage.chunk import decode_chunk
from kvxray_storage.database import Database
from kvxray_storage.epoch_directory import of_epoch
from kvxray_storage.exchange.unjoining import unjoin
from kvxray_storage.hash_tables import add_hashes
from kvxray_storage.history import EpochRow
from kvxray_storage.residency_travel import add_all_hashes, residency_at
from kvxray_storage.state_kinds import EitherState, begin_state, is_of_hashes
from kvxray_storage.time_travel import NotStored, state_at


class NothingThere(Exception):
    """A stretch of which nothing is stored: no file is made of it."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What a file has: so many events of so many epochs."""

    events: int
    epochs: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """Events first..last of an epoch of a source, both ends included; whatever is stored of them."""

    source: str
    epoch: EpochRow
    first: int
    last: int


def messages_of(database: Database, stretch: Stretch) -> Iterator[Message]:
    """Its messages, whole, in order. A changed descriptor belongs to the event after it."""
    chunk, key = models.chunk, stretch.epoch.key
    query = sa.select(chunk.c.data).where(
        *of_epoch(chunk, key), chunk.c.seq1 >= stretch.first - 1, chunk.c.seq0 <= stretch.last
    )
    ordered = query.order_by(chunk.c.wire_seq0).execution_options(stream_results=True, yield_per=4)
    with database.reading() as connection, connection.execute(ordered) as result:
        for row in result:
            for message in unjoin(decode_chunk(row.data)):
                if _is_inside(message, stretch):
                    yield message


def state_before(database: Database, stretch: Stretch, first: Message) -> EitherState:
    """The state before its first message, with the bytes of its hashes; unknown where nothing tells it."""
    header = first.header
    try:
        state = _state_at(database, stretch, header.seq0 - 1)
    except NotStored:
        state = begin_state(stretch.epoch.descriptor, known=False)
        state.t_ns = header.t0_wall_ns
    state.next_seq, state.next_wire_seq = header.seq0, header.wire_seq
    state.source, state.incarnation = stretch.source, stretch.epoch.incarnation
    return state


def _state_at(database: Database, stretch: Stretch, seq: int) -> EitherState:
    key = stretch.epoch.key
    if is_of_hashes(stretch.epoch.descriptor):
        residency = residency_at(database, key, seq)
        add_all_hashes(database, key, residency)
        return residency
    state = state_at(database, key, seq)
    add_hashes(database, key, state)
    return state


def _is_inside(message: Message, stretch: Stretch) -> bool:
    header = message.header
    if header.n == 0:
        return stretch.first <= header.seq0 <= stretch.last
    return header.seq0 + header.n - 1 >= stretch.first and header.seq0 <= stretch.last
