"""Keyframes, in the order of an epoch and beside its chunks: each can be read, says of itself what its row says, and,
where it was folded here, is what the events make of the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import sqlalchemy as sa
from kvxray_engine.stream.block_map import BLOCK_COLUMNS, BlockMap
from kvxray_engine.stream.codec import BadMessage
from kvxray_engine.stream.residency_map import ResidencyMap
from kvxray_engine.stream.schema import ENDED_STATUSES

from kvxray_storage import models
from kvxray_storage.checking.residency_difference import residency_difference
from kvxray_storage.chunk_folding import fold_chunks
from kvxray_storage.chunk_reader import ChunkPlace, StoredChunk
from kvxray_storage.epoch_directory import of_epoch
from kvxray_storage.records import EpochKey
from kvxray_storage.rollup_book import RollupBook
from kvxray_storage.state_kinds import EitherState, holds_a_state, load_state

_NUMBERS: Final = ("next_seq", "next_wire_seq", "t_ns", "step", "holders_known", "queried_tokens", "hit_tokens",
                   "generated_tokens", "computed_tokens")  # fmt: skip

Tell = Callable[[str, str], None]
"""(place, what is wrong)."""


class KeyframeCheck:
    """`_state`: the fold of what was read, None where it cannot be known."""

    def __init__(self, connection: sa.Connection, key: EpochKey, tell: Tell) -> None:
        self.num_checked = 0
        self._tell = tell
        self._state: EitherState | None = None
        self._frames = _frames(connection, key)
        self._frame = next(self._frames, None)

    def pass_chunk(self, place: ChunkPlace, chunk: StoredChunk | None) -> None:
        """The next chunk, in order; None: it cannot be read."""
        while self._frame is not None and self._frame.wire_seq <= place.wire_seq1:
            if self._frame.wire_seq > place.wire_seq0:
                self._fold(chunk, self._frame.seq - 1)
            self._check(self._frame)
        self._fold(chunk, place.seq1)

    def finish(self) -> None:
        """Those after the last chunk."""
        while self._frame is not None:
            self._check(self._frame)

    def _fold(self, chunk: StoredChunk | None, last_seq: int) -> None:
        """Past a damaged chunk nothing is known until a keyframe tells."""
        if chunk is None:
            self._state = None
        elif self._state is not None:
            fold_chunks(self._state, [chunk], last_seq)

    def _check(self, frame: Any) -> None:
        """And goes on from what the keyframe says."""
        self._frame = next(self._frames, None)
        self.num_checked += 1
        place = f"before event {frame.seq}"
        try:
            told = load_state(frame.kind, frame.state)
        except (BadMessage, TypeError, ValueError) as error:
            self._tell(place, f"it is damaged ({str(error).rstrip('.')})")
            self._state = None
            return
        for what in _misfits(frame, told):
            self._tell(place, what)
        told.next_seq, told.next_wire_seq = frame.seq, frame.wire_seq
        if frame.origin == "periodic" and self._state is not None:
            name = difference(self._state, told)
            if name:
                self._tell(place, f"it is not what the events before it make ({name} differs)")
        self._state = told


def _frames(connection: sa.Connection, key: EpochKey) -> Iterator[Any]:
    frame = models.keyframe
    query = sa.select(frame).where(*of_epoch(frame, key), holds_a_state())
    ordered = query.order_by(frame.c.wire_seq, frame.c.seq)
    with connection.execute(ordered.execution_options(stream_results=True, yield_per=1)) as result:
        yield from result


def _misfits(frame: Any, told: EitherState) -> Iterator[str]:
    if frame.num_bytes != len(frame.state):
        yield "its size is not what the row says"
    stands_at = (told.next_seq, told.next_wire_seq)
    # Whoever follows an engine of hashes says what it has before the next batch, whichever that is.
    is_before = isinstance(told, ResidencyMap) and frame.origin == "snapshot"
    if not (stands_at <= (frame.seq, frame.wire_seq) if is_before else stands_at == (frame.seq, frame.wire_seq)):
        yield f"it is of event {told.next_seq} of message {told.next_wire_seq}, not of the row's"
    # Before its first event a state knows of no time.
    if told.t_ns and told.t_ns != frame.t_ns:
        yield "its time is not what the row says"
    if frame.origin not in ("periodic", "snapshot"):
        yield f"its origin is {frame.origin!r}, neither periodic nor snapshot"
    if frame.rollup is not None:
        try:
            RollupBook(lambda span, start: None).decode(frame.rollup)
        except ValueError as error:
            yield str(error)


def difference(folded: EitherState, told: EitherState) -> str:
    """What is not the same in two states of one moment; empty: nothing."""
    if isinstance(folded, ResidencyMap) and isinstance(told, ResidencyMap):
        return residency_difference(folded, told)
    if isinstance(folded, BlockMap) and isinstance(told, BlockMap):
        return _pool_difference(folded, told)
    return "the kind"


def _pool_difference(folded: BlockMap, told: BlockMap) -> str:
    for name in _NUMBERS:
        if getattr(folded, name) != getattr(told, name):
            return name
    for name in BLOCK_COLUMNS:
        if not np.array_equal(getattr(folded, name), getattr(told, name)):
            return name
    if any(not np.array_equal(mine, theirs) for mine, theirs in zip(folded.holds(), told.holds(), strict=True)):
        return "holders"
    return "" if _living(folded) == _living(told) else "requests"


def _living(state: BlockMap) -> list[Any]:
    """Requests that have not ended: when the others are forgotten depends on how events were joined."""
    rows = state.requests.rows
    living: list[Any] = rows[~np.isin(rows["status"], [int(status) for status in ENDED_STATUSES])].tolist()
    return living
