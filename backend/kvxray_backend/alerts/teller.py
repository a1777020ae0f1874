"""Who is told of alerts, as the watch knows it: what delivery is to it, and what it is where nobody is told."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Literal, Protocol

from kvxray_storage.outbox import Notification

from kvxray_backend.alert_types import MuteView, QuietView, TargetView, ToldView
from kvxray_backend.alerts.alert import Alert

News = Literal["fired", "over"]
"""What people are told of an alert."""


class Teller(Protocol):
    """Safe to call from any thread. Only `told`, `told_of` and `mutes` may read the database."""

    can_mute: bool

    def take(self, alert: Alert, kind: News, stored: Future[None]) -> None:
        """Tell it once `stored` is done, or soon after where nothing can be stored."""

    def rows_for(self, alert: Alert, kind: News) -> Sequence[Notification]:
        """What goes into the same transaction as the alert, so that a restart knows what is due."""

    def firing(self, alerts: Sequence[Alert]) -> None:
        """All that fire now; comes with each look."""

    def told(self, alert_ids: Sequence[str]) -> dict[str, list[ToldView]]: ...

    def told_of(self, alert_id: str) -> list[ToldView]: ...

    def quiet(self, alert: Alert) -> QuietView | None:
        """Why nobody is told of it just now."""

    def targets(self) -> list[TargetView]: ...

    def mutes(self) -> list[MuteView]: ...


class NobodyIsTold:
    """Where no target is set."""

    can_mute = True

    def take(self, alert: Alert, kind: News, stored: Future[None]) -> None:
        pass

    def rows_for(self, alert: Alert, kind: News) -> Sequence[Notification]:
        return ()

    def firing(self, alerts: Sequence[Alert]) -> None:
        pass

    def told(self, alert_ids: Sequence[str]) -> dict[str, list[ToldView]]:
        return {}

    def told_of(self, alert_id: str) -> list[ToldView]:
        return []

    def quiet(self, alert: Alert) -> QuietView | None:
        return None

    def targets(self) -> list[TargetView]:
        return []

    def mutes(self) -> list[MuteView]:
        return []
