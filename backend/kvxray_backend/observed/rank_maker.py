"""Makes the sources of a watched engine: each goes on in the event log where an earlier process left it.

What is live does not wait for a database that cannot be asked: then nothing counts as stored before.
"""

from __future__ import annotations

import logging

from kvxray_storage.chunk import DamagedChunk
from kvxray_storage.database import OPENING_ERRORS

from kvxray_backend.analysis.seed_mismatch import HashesByTokens
from kvxray_backend.live_tail import LiveTail
from kvxray_backend.observed.rank_findings import RankFindings
from kvxray_backend.observed.rank_log import RankLog
from kvxray_backend.observed.ranks import ObservedRank, Recording, rank_number
from kvxray_backend.observed.spec import ObserveSpec
from kvxray_backend.observed.stored_before import IsStored, StoredNumbers, StoredUntil
from kvxray_backend.observed.surroundings import Surroundings
from kvxray_backend.sources.foreign.followed_source import FollowedSource
from kvxray_backend.sources.foreign.ordered_stream import Origin

logger = logging.getLogger(__name__)


class RankMaker:
    """`by_tokens`: of the engine, shared by its ranks."""

    def __init__(self, spec: ObserveSpec, around: Surroundings, by_tokens: HashesByTokens) -> None:
        self._spec = spec
        self._around = around
        self._by_tokens = by_tokens

    def __call__(self, name: str, origin: Origin) -> ObservedRank:
        """May wait for the database: not under the engine's lock."""
        around = self._around
        first_epoch = around.log.next_epoch(name)
        log = RankLog(
            around.log, around.clock, name, self._labels(origin), lambda: around.end_left_open(name, first_epoch)
        )
        recording = Recording(LiveTail(), log)
        followed = FollowedSource(
            name,
            around.names,
            self._by_tokens,
            store_semantics=self._spec.store_semantics,
            num_blocks=self._spec.num_blocks,
            first_epoch=first_epoch,
            is_stored=self._is_stored(name),
            record=recording,
        )
        return ObservedRank(name, rank_number(origin), followed, recording.tail, log, RankFindings(around.store))

    def _is_stored(self, name: str) -> IsStored:
        """By the engine's time; a file tells none of the day, but is read from its beginning each time."""
        is_file = self._spec.events is not None and self._spec.events.startswith("file:")
        try:
            if is_file:
                return StoredNumbers(self._around.stored_lives(name))
            return StoredUntil(self._around.stored_until_ns(name))
        except (*OPENING_ERRORS, DamagedChunk) as error:
            logger.warning("What is told again of %s is stored again, as it cannot be looked up: %s", name, error)
            return StoredNumbers([])

    def _labels(self, origin: Origin) -> dict[str, str]:
        told = {"engine": self._spec.name, "make": self._spec.make, "rank": str(rank_number(origin))}
        return {**self._spec.labels, **told}
