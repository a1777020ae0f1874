"""Two moments as a person writes them, as the stretch of each epoch that lies between them."""

from __future__ import annotations

from kvxray_engine.errors import UserError
from kvxray_storage import history
from kvxray_storage.database import Database
from kvxray_storage.exchange.stretch import NothingThere, Stretch
from kvxray_storage.history import EpochRow
from kvxray_storage.time_travel import seq_at_time

from kvxray_backend.moments import Moment, iso_time


def stretches_between(database: Database, source: str | None, begin: Moment, end: Moment) -> list[Stretch]:
    """Of each epoch what lies between the two moments, both included; live: from the first, up to the last. Raises
    UserError, and NothingThere.
    """
    names = [row.name for row in history.sources(database) if source in (None, row.name)]
    found, is_reversed = [], _is_later(begin, end)
    for name in names if not is_reversed else ():
        for epoch in history.epochs(database, name):
            if epoch.first_seq is None or epoch.last_seq is None or not epoch.num_events:
                continue
            first, last = _first(database, epoch, begin), _last(database, epoch, end)
            if first <= last:
                found.append(_whole(Stretch(name, epoch, first, last)))
            # Between a time and an event only the epoch of that event can tell.
            elif epoch.epoch in (one.point.epoch for one in (begin, end) if one.point is not None):
                is_reversed = is_reversed or _is_inside(epoch, begin, end)
    if is_reversed and not found:
        raise UserError(f"--from {_text(begin)} is later than --to {_text(end)}; exchange them.")
    if not found:
        raise NothingThere
    return found


def _is_later(begin: Moment, end: Moment) -> bool:
    """As far as that can be told without looking."""
    if begin.point is not None and end.point is not None:
        return begin.point > end.point
    return begin.t_ns is not None and end.t_ns is not None and begin.t_ns > end.t_ns


def _is_inside(epoch: EpochRow, begin: Moment, end: Moment) -> bool:
    """One is a time, and the other an event that is stored."""
    points = [one.point for one in (begin, end) if one.point is not None]
    is_stored = (epoch.first_seq or 0) <= points[0].seq <= (epoch.last_seq or 0)
    return len(points) == 1 and is_stored and not (begin.is_live or end.is_live)


def _whole(stretch: Stretch) -> Stretch:
    if stretch.epoch.is_unfinished:
        raise UserError(
            f"Epoch {stretch.epoch.epoch} of {stretch.source} is an unfinished import; import its file again, or "
            "leave it out with --source."
        )
    return stretch


def _text(moment: Moment) -> str:
    return str(moment.point) if moment.point is not None else iso_time(moment.t_ns or 0)


def _first(database: Database, epoch: EpochRow, begin: Moment) -> int:
    assert epoch.first_seq is not None
    if begin.begin_ns is not None:
        before = seq_at_time(database, epoch.key, begin.begin_ns - 1)
        return epoch.first_seq if before is None else before + 1
    if begin.point is None or begin.point.epoch < epoch.epoch:
        return epoch.first_seq
    return max(begin.point.seq, epoch.first_seq) if begin.point.epoch == epoch.epoch else 2**62


def _last(database: Database, epoch: EpochRow, end: Moment) -> int:
    assert epoch.last_seq is not None
    if end.t_ns is not None:
        found = seq_at_time(database, epoch.key, end.t_ns)
        return -1 if found is None else found
    if end.point is None or end.point.epoch > epoch.epoch:
        return epoch.last_seq
    return min(end.point.seq, epoch.last_seq) if end.point.epoch == epoch.epoch else -1
