"""`/api/alerts` out of the watch and the database: what fires now is of the watch, what is over of the log."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kvxray_storage.alerts import AlertRow, Wanted, alert_of, alerts, num_alerts
from kvxray_storage.chunk import DamagedChunk

from kvxray_backend.alert_types import AlertsView, AlertView, PendingView, ToldView
from kvxray_backend.alerts.alert import Alert
from kvxray_backend.alerts.alert_book import Pending
from kvxray_backend.alerts.alert_rows import alert_of_row
from kvxray_backend.alerts.alert_text import alert_text
from kvxray_backend.alerts.links import page_link, whole_link
from kvxray_backend.moments import iso_time_or_none

if TYPE_CHECKING:
    from kvxray_backend.backend import Backend

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Asked:
    """Which alerts, and which of them: `offset`: so many are left out before. Empty is any."""

    state: Literal["active", "over", "all"]
    limit: int
    offset: int = 0
    rule: str = ""
    engine: str = ""
    severity: str = ""

    def takes(self, alert: Alert) -> bool:
        asked = ((self.rule, alert.rule), (self.engine, alert.engine), (self.severity, alert.severity))
        return all(wanted in ("", told) for wanted, told in asked)


def alerts_view(backend: Backend, asked: Asked) -> AlertsView:
    watch = backend.alerts
    fresh = [one for one in _fresh(backend) if asked.takes(one)] if asked.state != "active" else []
    active = [one for one in watch.active() if asked.takes(one)] if asked.state != "over" else []
    known = {one.id for one in (*active, *fresh)}
    now = [*active, *fresh]
    listed, num = now[asked.offset : asked.offset + asked.limit], len(now)
    if asked.state != "active":
        older, num_older = _over(backend, asked, known, max(asked.offset - len(now), 0), asked.limit - len(listed))
        listed, num = [*listed, *older], num + num_older
    return AlertsView(
        alerts=_views(backend, listed),
        num=num,
        pending=[_pending_view(one) for one in watch.pending()],
        targets=watch.teller.targets(),
        mutes=watch.teller.mutes(),
        can_mute=watch.teller.can_mute,
        looked_at=iso_time_or_none(watch.looked_at_ns),
        not_stored=watch.not_stored,
        num_rules_on=sum(one.is_on for one in watch.rules().values()),
    )


def alert_view(backend: Backend, alert_id: str) -> AlertView | None:
    """None: there is none of that id, or none any more. Raises DamagedChunk."""
    watch = backend.alerts
    known = {one.id: one for one in (*watch.unstored(), *watch.active())}
    alert = known.get(alert_id)
    if alert is None:
        row = alert_of(backend.database, alert_id)
        alert = alert_of_row(row) if row is not None else None
    return None if alert is None else _views(backend, [alert])[0]


def _fresh(backend: Backend) -> list[Alert]:
    """Those that are over and that the database may not tell yet, the newest first."""
    over = [one for one in backend.alerts.unstored() if one.state == "over"]
    return sorted(over, key=lambda one: -one.fired_ns)


def _over(backend: Backend, asked: Asked, known: set[str], offset: int, limit: int) -> tuple[list[Alert], int]:
    """Of the log, without those that are known to be otherwise; and how many there are in all."""
    wanted = Wanted("over", asked.rule, asked.engine, asked.severity)
    rows = alerts(backend.database, wanted, limit, offset) if limit > 0 else []
    return [*_readable(row for row in rows if row.id not in known)], num_alerts(backend.database, wanted)


def _readable(rows: Iterable[AlertRow]) -> Iterator[Alert]:
    """One that is damaged hides none of the others."""
    for row in rows:
        try:
            yield alert_of_row(row)
        except DamagedChunk as error:
            logger.error("%s", error)


def _views(backend: Backend, listed: Sequence[Alert]) -> list[AlertView]:
    told = backend.alerts.teller.told([one.id for one in listed]) if listed else {}
    return [_view(backend, one, told) for one in listed]


def _view(backend: Backend, alert: Alert, told: dict[str, list[ToldView]]) -> AlertView:
    watch, link = backend.alerts, page_link(alert)
    known = watch.rules().get(alert.rule)
    return AlertView(
        alert=alert,
        unknown_since=iso_time_or_none(watch.unknown_since_ns(alert)),
        link=link,
        told=told.get(alert.id, []),
        quiet=watch.teller.quiet(alert),
        text=alert_text(alert, known.rule if known else None, whole_link(backend.settings, link)),
    )


def _pending_view(one: Pending) -> PendingView:
    return PendingView(
        rule=one.rule,
        severity=one.severity,
        engine=one.engine,
        since=iso_time_or_none(one.since_ns),
        fires_in_s=one.fires_in_s,
    )
