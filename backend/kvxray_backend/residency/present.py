"""What sources that tell of hashes have cached now: copied under the engine's lock, looked at without it."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kvxray_engine.stream.residency_state import ResidencyState

from kvxray_backend.moments import LIVE
from kvxray_backend.observed.engine import ObservedEngine, ObservedRank
from kvxray_backend.residency.columns import ResidencyColumns, copied, in_order
from kvxray_backend.residency.foreign_source import ForeignMoment, ForeignSource, Lately, capacity_of, findings_about
from kvxray_backend.residency.picture import ResidencyPicture

if TYPE_CHECKING:
    from kvxray_backend.backend import Backend

KEEP_S: Final = 0.5
ONE_PART_OF: Final = 5
"""Of the time of a core goes at most into chains of a source, however many hashes it has."""
MAX_ENTRIES: Final = 4 << 20
"""Over all that is kept: some 60 bytes each, and half as many again for their chains."""


@dataclass(frozen=True, slots=True, eq=False)
class _Kept:
    made_at: float
    fold: ResidencyState
    picture: ResidencyPicture

    def is_good(self, fold: ResidencyState) -> bool:
        """Nothing came since, or it is young: the longer it took, the longer it stands."""
        if self.fold is not fold:
            return False
        stands_s = max(KEEP_S, ONE_PART_OF * self.picture.cost_s)
        return self.picture.columns.next_seq == fold.next_seq or time.monotonic() - self.made_at < stands_s


class PresentPictures:
    """Copied at most twice a second for all who ask. Call from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def of(self, engine: ObservedEngine, rank: ObservedRank) -> ResidencyPicture:
        with self._lock:
            kept = self._kept.get(rank.name)
            told: ResidencyColumns | None = None
            with engine.lock:
                fold = rank.followed.fold
                if kept is None or not kept.is_good(fold):
                    told = copied(fold)
            if told is not None:
                kept = self._kept[rank.name] = _Kept(time.monotonic(), fold, ResidencyPicture(in_order(told)))
                self._kept.move_to_end(rank.name)
                self._forget()
            assert kept is not None, "it was made if it was not there"
            return kept.picture

    def _forget(self) -> None:
        """The oldest first; the newest stays, however large."""
        total = sum(len(kept.picture.columns.keys) for kept in self._kept.values())
        while len(self._kept) > 1 and total > MAX_ENTRIES:
            _, oldest = self._kept.popitem(last=False)
            total -= len(oldest.picture.columns.keys)


def present(backend: Backend, source: ForeignSource, pictures: PresentPictures) -> ForeignMoment:
    """What it is now."""
    engine, rank = source.engine, source.rank
    assert engine is not None, "somebody watches it"
    now_ns = backend.clock.wall_ns()
    with engine.lock:
        connection, since_ns = engine.connection, engine.since_ns
        findings = findings_about(engine, source.name)
        heard_ns = rank.followed.last_heard_ns if rank is not None else None
        capacity = capacity_of(engine, rank)
        epoch = rank.epoch if rank is not None else None
        lately = Lately(*rank.followed.readmissions.of_last_minute()) if rank is not None else None
    told = pictures.of(engine, rank) if rank is not None else None
    if told is not None and heard_ns is not None:
        # By the engine's clock: as long after its last event as we have waited since.
        now_ns = told.columns.t_ns + max(now_ns - heard_ns, 0)
    return ForeignMoment(source, LIVE, connection, since_ns, epoch, told, now_ns, capacity, findings, lately=lately)
