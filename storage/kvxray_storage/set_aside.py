"""What cannot be stored though the database takes writes: it becomes a gap of its own epoch, and all else is stored.

A number too large for its column or a chunk that cannot be packed fails however often it is tried. What it stands among
is written piece by piece instead, so that one engine's entry ends nobody's history.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import sqlalchemy as sa
from kvxray_engine.stream.schema import Header

from kvxray_storage.commit_batch import CommitBatch
from kvxray_storage.epoch_progress import Progress
from kvxray_storage.file_watch import FileGone
from kvxray_storage.records import EpochKey, Gap
from kvxray_storage.refusals import WritesRefused

CANNOT_BE_STORED: Final = "it could not be stored; kvxray's own log says why"

logger = logging.getLogger(__name__)
Write = Callable[[CommitBatch], bool]
"""One transaction, tried until it holds. False: the log closes and the database still refuses."""


class Unwritable(Exception):
    """An entry is at fault, not the database; its cause says how."""


@contextmanager
def blaming_entries() -> Iterator[None]:
    """Around statements: raises Unwritable where trying again would fail in the same way."""
    try:
        yield
    except (FileGone, WritesRefused):
        raise
    except Exception as error:
        is_wrong_value = isinstance(error, sa.exc.DataError) or not isinstance(error, sa.exc.DBAPIError)
        is_statement = not isinstance(error, sa.exc.SQLAlchemyError) or isinstance(error, sa.exc.StatementError)
        if is_wrong_value and is_statement:
            raise Unwritable from error
        raise


def gap_of(key: EpochKey, first: Header, last: Header) -> Gap:
    """In the place of messages first..last."""
    return Gap(key, first.wire_seq, last.wire_seq, first.seq0, last.seq0 + last.n - 1, time.time_ns(), CANNOT_BE_STORED)


class Apart:
    """Writes a batch in pieces. `unopened`: epochs whose row could not be stored, so that nothing of them can be."""

    def __init__(self) -> None:
        self.unopened: set[EpochKey] = set()

    def write(self, batch: CommitBatch, before: Mapping[EpochKey, Progress], write: Write) -> set[EpochKey] | None:
        """Stores what can be, and leaves in the batch what was; returns the epochs of which something was set aside.
        None: the log closes and the database still refuses.

        before: the progress of its epochs as it is stored.
        """
        whole, batch.chunks, broken = batch.chunks, [], set()
        for key in sorted(batch.epochs_moved() | {chunk.key for chunk in whole} | set(batch.rewinds)):
            own = _of_epoch(replace(batch, chunks=whole), key)
            try:
                if not write(own):
                    return None
                batch.chunks += own.chunks
            except Unwritable:
                broken.add(key)
                written = self._in_pieces(own, before[key], write)
                if written is None:
                    return None
                batch.chunks += written.chunks
                batch.progress[key] = written.progress[key]
        if not all(_try(CommitBatch(findings=[finding]), write) is not None for finding in batch.findings):
            return None
        return broken

    def _in_pieces(self, own: CommitBatch, progress: Progress, write: Write) -> CommitBatch | None:
        """What of one epoch could be stored, with the progress it has then."""
        key, done = progress.key, CommitBatch(progress={progress.key: progress})
        for piece in _pieces(own):
            if key in self.unopened:
                break
            for one in (piece, *_instead_of(piece)):
                one.progress = {key: _moved(done.progress[key], one)}
                held = _try(one, write)
                if held is None:
                    return None
                if held:
                    done.chunks += one.chunks
                    done.progress = one.progress
                    break
                if one.epochs:
                    self.unopened.add(key)
        return done


def _try(piece: CommitBatch, write: Write) -> bool | None:
    """Whether it could be stored; None: the log closes."""
    try:
        return True if write(piece) else None
    except Unwritable as error:
        logger.error("An entry of the event log could not be stored and is set aside.", exc_info=error.__cause__)
        return False


def _of_epoch(batch: CommitBatch, key: EpochKey) -> CommitBatch:
    return CommitBatch(
        epochs=[one for one in batch.epochs if one.key == key],
        chunks=[one for one in batch.chunks if one.key == key],
        keyframes=[one for one in batch.keyframes if one.key == key],
        records=[one for one in batch.records if one.key == key],
        rollups=[one for one in batch.rollups if (one.values["source_id"], one.values["epoch"]) == _numbers(key)],
        rewinds={one: at for one, at in batch.rewinds.items() if one == key},
        progress={one: progress for one, progress in batch.progress.items() if one == key},
    )


def _numbers(key: EpochKey) -> tuple[int, int]:
    return key.source_id, key.epoch


def _pieces(own: CommitBatch) -> Iterator[CommitBatch]:
    """Without what was folded, since that may rest on what is not stored: whoever catches up makes it again."""
    yield from (CommitBatch(epochs=[one]) for one in own.epochs)
    yield from (CommitBatch(chunks=[one]) for one in own.chunks)
    told = [one for one in own.keyframes if one.origin == "snapshot"]
    yield from (CommitBatch(keyframes=[replace(one, rollup=None)]) for one in told)
    yield from (CommitBatch(records=[one]) for one in own.records)
    if own.rewinds:
        yield CommitBatch(rewinds=own.rewinds)


def _instead_of(piece: CommitBatch) -> list[CommitBatch]:
    """A chunk that cannot be stored is a gap."""
    return [
        CommitBatch(
            records=[Gap(one.key, one.wire_seq0, one.wire_seq1, one.seq0, one.seq1, time.time_ns(), CANNOT_BE_STORED)]
        )
        for one in piece.chunks
    ]


def _moved(progress: Progress, piece: CommitBatch) -> Progress:
    for chunk in piece.chunks:
        progress = progress.with_chunk(chunk)
    for record in piece.records:
        progress = progress.with_gap(record) if isinstance(record, Gap) else progress
    return progress
