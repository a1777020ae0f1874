"""The folds of the epochs that are written: each follows what is cut, or catches up with what is stored.

An epoch is behind when it is opened with something stored already, and after something was stored before what was
folded: then chunks are stored unfolded, and between commits the fold comes from the database, until it has all there
is.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import sqlalchemy as sa
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.schema import Descriptor

from kvxray_storage.catch_up import CatchUp, Writing
from kvxray_storage.chunk_builder import ClosedChunk
from kvxray_storage.commit_batch import CommitBatch
from kvxray_storage.database import Database
from kvxray_storage.epoch_fold import EpochFold
from kvxray_storage.file_watch import FileGone
from kvxray_storage.fold_rows import touched_rollups
from kvxray_storage.fold_start import FoldStart
from kvxray_storage.left_behind import LeftBehind
from kvxray_storage.packing import Packer
from kvxray_storage.records import EpochKey, Keyframe
from kvxray_storage.refusals import WritesRefused
from kvxray_storage.rollup_book import RollupBook
from kvxray_storage.state_kinds import STATE_KINDS, EitherState, load_state

SLICE_S: Final = 0.25
PAUSE_S: Final = 1.0
"""After the database refused."""

REFUSALS: Final = (sa.exc.SQLAlchemyError, FileGone, WritesRefused)

logger = logging.getLogger(__name__)


class EpochFolds:
    """Belongs to the writer's thread. An epoch is in at most one of the four: `_fresh` are those of which nothing is
    stored, with what their sources are. `_current`: by source the one it lives in. `left`: epochs of earlier logs,
    folded once nothing is behind that was opened.
    """

    def __init__(self, database: Database, writing: Writing, packer: Packer) -> None:
        self._database = database
        self._packer = packer
        self._writing = writing
        self._fresh: dict[EpochKey, Descriptor] = {}
        self._live: dict[EpochKey, EpochFold] = {}
        self._behind: dict[EpochKey, CatchUp] = {}
        self._given_up: set[EpochKey] = set()
        self._current: dict[int, EpochKey] = {}
        self._retry_at = 0.0
        self.left = LeftBehind(database)

    @property
    def due_at(self) -> float | None:
        """Monotonic seconds when `catch_up` has something to do; None when nothing is behind."""
        return self._retry_at if self._behind or self.left else None

    def open(self, batch: CommitBatch, key: EpochKey, descriptor: Descriptor) -> None:
        """The source lives in this epoch now; what else it lived in needs no fold any more once the batch has what that
        touched. One that is behind goes on until it has all there is.
        """
        for other, fold in self._live.items():
            if other.source_id == key.source_id and other != key:
                batch.rollups.extend(touched_rollups(other, fold.book))
        for folds in (self._fresh, self._live):
            for other in [one for one in folds if one.source_id == key.source_id and one != key]:
                del folds[other]
        self._current[key.source_id] = key
        if key in self._live or key in self._behind or key in self._given_up:
            return
        if self._is_empty(key):
            self._fresh[key] = descriptor
        else:
            self._fall_behind(key)

    def take_chunk(self, batch: CommitBatch, chunk: ClosedChunk) -> None:
        """A chunk that the batch stores."""
        try:
            self._take_chunk(batch, chunk)
        except Exception:
            self._give_up(chunk.key)

    def _take_chunk(self, batch: CommitBatch, chunk: ClosedChunk) -> None:
        if chunk.key in self._fresh:
            self._begin_at_chunk(batch, chunk)
        fold = self._live.get(chunk.key)
        if fold is None:
            self._note_stored(batch, chunk.key, chunk.wire_seq0)
        elif chunk.wire_seq0 < fold.next_wire_seq:
            self._rewind(batch, chunk.key, chunk.wire_seq0)
        else:
            self._fold(batch, fold, chunk)

    def take_keyframe(self, batch: CommitBatch, frame: Keyframe, state: EitherState | None) -> Keyframe:
        """An engine's keyframe that the batch stores, `state` what it says (None: no state, or not readable); returns
        it with what was folded up to there.
        """
        if state is None:
            return frame
        if frame.key in self._fresh:
            del self._fresh[frame.key]
            self._live[frame.key] = EpochFold(frame.key, state, self._new_book(frame.key))
        fold = self._live.get(frame.key)
        if fold is None:
            self._note_stored(batch, frame.key, frame.wire_seq)
            return frame
        if frame.wire_seq < fold.next_wire_seq:
            self._rewind(batch, frame.key, frame.wire_seq)
            return frame
        return frame.with_rollup(fold.adopt(frame.wire_seq, frame.seq, state))

    def finish(self, batch: CommitBatch) -> None:
        """Everything of the batch was taken: its rollups go with it, and the keyframes that were drawn."""
        for drawn in batch.drafts:
            try:
                batch.keyframes.append(drawn.result())
            except Exception:
                # The next one is drawn anew; until then a moment is folded from the one before.
                logger.exception("a keyframe could not be made")
        batch.drafts.clear()
        for key, fold in self._live.items():
            batch.rollups.extend(touched_rollups(key, fold.book))

    def begin_again(self, keys: Iterable[EpochKey]) -> None:
        """Of these not all that was taken is stored: what counts is what the database has."""
        for key in keys:
            is_taken = self._fresh.pop(key, None) is not None
            if self._live.pop(key, None) is not None or is_taken:
                self._fall_behind(key)

    def settle(self) -> None:
        """What was taken is stored."""
        for fold in self._live.values():
            fold.book.tidy()

    def catch_up(self) -> None:
        """One slice for each epoch that is behind. Call it when all that was taken is stored."""
        if time.monotonic() < self._retry_at:
            return
        if not self._behind and self.left:
            self._take_up_left()
        for key, behind in list(self._behind.items()):
            try:
                if behind.run(SLICE_S / len(self._behind)):
                    self._come_up(key, behind)
            except REFUSALS as error:
                self._stumble(key, error)
            except Exception:
                self._give_up(key)

    def check_integrity(self) -> None:
        keys = [*self._fresh, *self._live, *self._behind, *self._given_up]
        assert len(keys) == len(set(keys)), "an epoch is in two places at once"
        for fold in self._live.values():
            fold.check_integrity()

    def _is_empty(self, key: EpochKey) -> bool:
        """False too where the database does not say."""
        try:
            return not FoldStart(self._database, key).is_anything_stored()
        except REFUSALS:
            return False

    def _begin_at_chunk(self, batch: CommitBatch, chunk: ClosedChunk) -> None:
        place = chunk.wire_seq0, chunk.seq0, chunk.t0_ns
        descriptor = self._fresh.pop(chunk.key)
        fold = EpochFold.without_keyframe(chunk.key, descriptor, *place, self._new_book(chunk.key))
        batch.drafts.append(self._packer.pack(fold.draft()))
        self._live[chunk.key] = fold

    def _new_book(self, key: EpochKey) -> RollupBook:
        return RollupBook(FoldStart(self._database, key).read_row)

    def _fold(self, batch: CommitBatch, fold: EpochFold, chunk: ClosedChunk) -> None:
        fold.fold(chunk.wire_seq0, chunk.message)
        if fold.is_due:
            batch.drafts.append(self._packer.pack(fold.draft()))

    def _rewind(self, batch: CommitBatch, key: EpochKey, wire_seq: int) -> None:
        batch.rewinds[key] = min(wire_seq, batch.rewinds.get(key, wire_seq))
        fold = self._live.pop(key, None)
        if fold is not None:
            # Keyframes of this batch that stay were made with these rows.
            batch.rollups.extend(touched_rollups(key, fold.book))
        self._fall_behind(key)

    def _note_stored(self, batch: CommitBatch, key: EpochKey, wire_seq: int) -> None:
        """Stored without being folded: whoever catches up comes to it, unless it lies before where that stands, or may
        begin.
        """
        if key in self._given_up:
            return
        fold = self._behind[key].fold if key in self._behind else None
        if fold is None or wire_seq < fold.next_wire_seq:
            self._rewind(batch, key, wire_seq)

    def _fall_behind(self, key: EpochKey) -> None:
        self._behind[key] = CatchUp(self._database, key, self._writing)

    def _take_up_left(self) -> None:
        try:
            key = self.left.first_beside([*self._fresh, *self._live, *self._given_up])
        except REFUSALS as error:
            self._wait(error)
            return
        if key is not None:
            self._fall_behind(key)
            self.left.drop_first()

    def _come_up(self, key: EpochKey, behind: CatchUp) -> None:
        """Where nothing could be stored after all there is no fold: the next chunk makes it fall behind again. So it
        does where the source has begun another life meanwhile: of this one everything is folded.
        """
        del self._behind[key]
        if behind.fold is not None and self._current.get(key.source_id) == key:
            self._live[key] = behind.fold

    def _stumble(self, key: EpochKey, error: Exception) -> None:
        """The database refuses: begin again later, from what stands."""
        self._wait(error)
        self._fall_behind(key)

    def _wait(self, error: Exception) -> None:
        logger.warning("keyframes and rollups wait for the database: %s", error)
        self._retry_at = time.monotonic() + PAUSE_S

    def _give_up(self, key: EpochKey) -> None:
        """Events are stored all the same; whoever opens the epoch next tries again."""
        logger.exception("keyframes and rollups of epoch %s end here", key)
        for folds in (self._fresh, self._live, self._behind):
            folds.pop(key, None)
        self._given_up.add(key)


def with_names(keyframe: Keyframe) -> tuple[Keyframe, EitherState | None]:
    """A snapshot brings the names of requests that began before we listened: no message told them. And its state."""
    if keyframe.kind not in STATE_KINDS:
        return replace(keyframe, names=keyframe.names or {}), None
    try:
        state = load_state(keyframe.kind, keyframe.state)
    except Exception as error:
        # Stored as it is: what cannot be read today is still what the source sent.
        logger.warning("a keyframe cannot be read: %s", error)
        return replace(keyframe, names=keyframe.names or {}), None
    told = state.requests.names if isinstance(state, BlockMap) else state.names.names
    return replace(keyframe, names=told if keyframe.names is None else keyframe.names), state
