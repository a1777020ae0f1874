"""Folds chunks onto a state: many at once where they follow each other, and losing track where they do not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec
from kvxray_engine.stream.codec import BadMessage, Message
from kvxray_engine.stream.joining import can_be_timed_from, can_join, join

from kvxray_storage.chunk_reader import StoredChunk
from kvxray_storage.state_kinds import EitherState, lose_track

JOIN_EVENTS: Final = 65_536
"""Larger folds are cheaper an event, until their arrays outgrow the processor's caches."""


def fold_chunks(state: EitherState, chunks: Iterable[StoredChunk], last_seq: int) -> bool:
    """Folds what these chunks have beyond the state, up to event `last_seq`.

    Where messages are missing between the state and a chunk, or cannot be folded, what they changed is unknown then.
    Returns whether that was so.
    """
    run: list[tuple[StoredChunk, Message]] = []
    has_forgotten = False
    for chunk in chunks:
        at = run[-1][0].place if run else None
        next_seq, next_wire_seq = (at.seq1 + 1, at.wire_seq1 + 1) if at else (state.next_seq, state.next_wire_seq)
        message = _beyond(chunk, next_seq, next_wire_seq, last_seq)
        if message is None:
            continue
        if run and not _may_follow(run, chunk, message):
            has_forgotten |= _fold(state, [one for _, one in run])
            run = []
        if not run:
            has_forgotten |= pass_hole(state, chunk)
        run.append((chunk, message))
    return _fold(state, [one for _, one in run]) | has_forgotten


def pass_hole(state: EitherState, chunk: StoredChunk) -> bool:
    """Brings the state to where the chunk begins, having lost track, if messages are missing between the two."""
    place = chunk.place
    if place.wire_seq0 <= state.next_wire_seq:
        return False
    lose_track(state)
    state.next_seq, state.next_wire_seq = place.seq0, place.wire_seq0
    return True


def _beyond(chunk: StoredChunk, next_seq: int, next_wire_seq: int, last_seq: int) -> Message | None:
    """The part of a chunk that a state lacks; None when there is none."""
    place = chunk.place
    if place.wire_seq1 < next_wire_seq:
        return None
    is_untouched = place.wire_seq0 >= next_wire_seq and place.seq0 >= next_seq
    if is_untouched and place.seq1 <= last_seq:
        return chunk.message
    return chunk.part(next_seq, last_seq)


def _may_follow(run: list[tuple[StoredChunk, Message]], chunk: StoredChunk, message: Message) -> bool:
    first, (before, last) = run[0][1], run[-1]
    if before.place.wire_seq1 + 1 != chunk.place.wire_seq0 or message.timing is not None:
        return False
    if sum(one.header.n for _, one in run) + message.header.n > JOIN_EVENTS:
        return False
    # A joined message has its last one's number; what counts here is its first one's.
    header = msgspec.structs.replace(message.header, wire_seq=chunk.place.wire_seq0)
    return can_join(first, last, Message(header, message.columns)) and can_be_timed_from(first, message)


def _fold(state: EitherState, messages: list[Message]) -> bool:
    """Whether something could not be folded."""
    if not messages:
        return False
    try:
        state.apply(join(messages))
    except BadMessage:
        if len(messages) > 1:
            failed = [_fold(state, [message]) for message in messages]
            return any(failed)
        lose_track(state)
        return True
    return False
