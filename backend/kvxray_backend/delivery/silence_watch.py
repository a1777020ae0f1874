"""Asks Alertmanagers every few seconds which of our alerts they tell nobody of; remembers what was last said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import httpx2

from kvxray_backend.alert_types import QuietView
from kvxray_backend.alerts.alert import Alert
from kvxray_backend.delivery.alertmanager import GENERATOR, labels_of
from kvxray_backend.delivery.posting import TIMEOUT_S
from kvxray_backend.delivery.silences import (
    LabelSet,
    Silence,
    alerts_in,
    label_set,
    quiet_alerts,
    silence_ids,
    silence_in,
)
from kvxray_backend.delivery.target import Target
from kvxray_backend.metrics.metrics_http import FetchError, get_bytes
from kvxray_backend.moments import iso_time

LOOK_S: Final = 15.0
MAX_ANSWER_BYTES: Final = 16 << 20
MAX_SILENCE_BYTES: Final = 64 << 10


class SilenceWatch:
    """One cluster tells the same everywhere: the first that answers is believed. `quiet` may be asked from any thread;
    what was said last stands, and says since when nobody answers.
    """

    def __init__(self, targets: Sequence[Target], timeout_s: float = TIMEOUT_S) -> None:
        self._targets = [target for target in targets if target.kind == "alertmanager"]
        self._timeout_s = timeout_s
        self._quiet: Mapping[LabelSet, QuietView] = {}
        self._looked_ns: int | None = None
        self._unanswered = False

    async def look(self, http: httpx2.AsyncClient, now_ns: int) -> None:
        """Raises nothing."""
        for target in self._targets:
            try:
                self._quiet = await self._asked(http, target)
            except (FetchError, ValueError):
                continue
            self._looked_ns, self._unanswered = now_ns, False
            return
        self._unanswered = True

    def quiet(self, alert: Alert) -> QuietView | None:
        found = self._quiet.get(label_set(labels_of(alert)))
        if found is None or not self._unanswered or self._looked_ns is None:
            return found
        since = f"As of {iso_time(self._looked_ns)}: Alertmanager does not answer since."
        return found.model_copy(update={"note": f"{found.note} {since}".strip()})

    async def _asked(self, http: httpx2.AsyncClient, target: Target) -> dict[LabelSet, QuietView]:
        params = {"filter": f'generator="{GENERATOR}"'}
        answer = await get_bytes(
            http, f"{target.url}/api/v2/alerts", max_bytes=MAX_ANSWER_BYTES, timeout_s=self._timeout_s, params=params
        )
        alerts = alerts_in(answer)
        silences = {name: await self._silence(http, target, name) for name in silence_ids(alerts)}
        return quiet_alerts(alerts, {name: one for name, one in silences.items() if one is not None}, target.base)

    async def _silence(self, http: httpx2.AsyncClient, target: Target, name: str) -> Silence | None:
        try:
            url = f"{target.url}/api/v2/silence/{name}"
            return silence_in(await get_bytes(http, url, max_bytes=MAX_SILENCE_BYTES, timeout_s=self._timeout_s))
        except (FetchError, ValueError):
            return None
