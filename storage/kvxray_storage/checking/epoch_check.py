"""One epoch: its chunks in order, and beside them all that follows from them, as of one moment of the database."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import sqlalchemy as sa
from kvxray_engine.stream.codec import BadMessage

from kvxray_storage import models
from kvxray_storage.checking.chunk_rows import PLACE, misfit, told_range
from kvxray_storage.checking.counted_seconds import SecondsCheck
from kvxray_storage.checking.epoch_sums import StoredSums, cursor_misfits, epoch_misfits
from kvxray_storage.checking.fault import Fault, Verdict
from kvxray_storage.checking.keyframes import KeyframeCheck
from kvxray_storage.checking.plain_tables import check_table
from kvxray_storage.checking.postings import PostingCheck
from kvxray_storage.checking.told_names import check_names_told
from kvxray_storage.chunk import DamagedChunk
from kvxray_storage.chunk_reader import ChunkPlace, StoredChunk
from kvxray_storage.epoch_directory import of_epoch
from kvxray_storage.records import EpochKey
from kvxray_storage.state_kinds import holds_a_state

_PROGRESS_CHUNKS: Final = 256


class EpochCheck:
    def __init__(self, connection: sa.Connection, key: EpochKey, source: str, verdict: Verdict) -> None:
        self._connection = connection
        self._key = key
        self._source = source
        self._verdict = verdict
        self._sums = StoredSums()
        self._last: ChunkPlace | None = None

    def check(self) -> None:
        row = self._row()
        if row is None:
            return  # an import that was taken back meanwhile
        tell, connection, key = self._tell, self._connection, self._key
        self._keyframes = KeyframeCheck(connection, key, partial(tell, "keyframe"))
        postings = partial(tell, "posting")
        was_pruned = row.pruned_seq is not None
        self._postings = PostingCheck(connection, key, was_pruned=was_pruned, tell=postings)
        self._seconds = SecondsCheck(connection, key, tell)
        for chunk in self._chunks():
            self._check_chunk(chunk)
        for part in (self._keyframes, self._postings, self._seconds):
            part.finish()
        self._check_other_frames()
        self._verdict.checked["keyframe"] += self._keyframes.num_checked
        self._verdict.checked["posting"] += self._postings.num_checked
        self._check_sums(row)
        for table in (models.epoch, models.name, models.gap):
            check_table(connection, self._verdict, table, self._source, *of_epoch(table, key))

    def _check_chunk(self, row: Any) -> None:
        place = ChunkPlace(row.wire_seq0, row.wire_seq1, row.seq0, row.seq1)
        last, self._last = self._last, place
        if last is not None and (place.wire_seq0 <= last.wire_seq1 or place.seq0 <= last.seq1):
            self._tell("chunk", told_range(place), "it overlaps the one before it")
        chunk = self._read(row, place)
        self._keyframes.pass_chunk(place, chunk)
        self._postings.pass_chunk(place, chunk)
        self._seconds.pass_chunk(place, chunk)
        if chunk is not None:
            check_names_told(self._connection, self._key, chunk, partial(self._tell, "name"))
        self._sums.add(row)
        self._verdict.checked["chunk"] += 1
        self._verdict.checked["event"] += row.num_events
        if self._sums.chunks % _PROGRESS_CHUNKS == 0:
            done = f"{self._sums.chunks:,} chunks with {self._sums.events:,} events"
            self._verdict.on_progress(f"epoch {self._key.epoch} of {self._source}: {done}")

    def _read(self, row: Any, place: ChunkPlace) -> StoredChunk | None:
        try:
            chunk = StoredChunk(place, row.data)
            wrong = misfit(row, chunk)
        except (DamagedChunk, BadMessage, ValueError, IndexError, TypeError) as error:
            self._tell("chunk", told_range(place), f"it is damaged ({str(error).rstrip('.')})")
            return None
        if wrong:
            self._tell("chunk", told_range(place), f"{wrong} is not what its events say")
        # With a wrong place nothing else of it can be told apart either.
        return None if wrong == PLACE else chunk

    def _check_other_frames(self) -> None:
        frame = models.keyframe
        query = sa.select(frame.c.seq, frame.c.kind).where(*of_epoch(frame, self._key), ~holds_a_state())
        for seq, kind in self._connection.execute(query):
            self._tell("keyframe", f"before event {seq}", f"it is of a kind that there is not: {kind!r}")

    def _check_sums(self, row: Any) -> None:
        frame = models.keyframe
        first = sa.select(sa.func.min(frame.c.seq)).where(*of_epoch(frame, self._key))
        first_frame_seq = self._connection.execute(first).scalar()
        for what in epoch_misfits(row, self._sums, first_frame_seq):
            self._tell("epoch", "", what)
        if row.importing_ns is not None:
            self._tell("epoch", "", "unfinished import; import its file again")
        self._verdict.checked["cursor"] += 1
        for what in cursor_misfits(self._connection, self._key, row, self._sums):
            self._tell("cursor", "", what)

    def _row(self) -> Any:
        """Its numbers; its texts are read otherwise."""
        table = models.epoch
        names = (
            "first_seq", "last_seq", "last_ns", "num_events", "num_chunks", "pruned_events", "pruned_chunks",
            "pruned_seq", "pruned_ns", "importing_ns",
        )  # fmt: skip
        query = sa.select(*(table.c[name] for name in names)).where(*of_epoch(table, self._key))
        return self._connection.execute(query).one_or_none()

    def _chunks(self) -> Iterator[Any]:
        chunk = models.chunk
        query = sa.select(chunk).where(*of_epoch(chunk, self._key)).order_by(chunk.c.wire_seq0)
        with self._connection.execute(query.execution_options(stream_results=True, yield_per=8)) as result:
            yield from result

    def _tell(self, table: str, place: str, what: str) -> None:
        self._verdict.tell(Fault(table, self._source, self._key.epoch, place, what))
