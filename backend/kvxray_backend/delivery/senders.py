"""How one target is told: what an Alertmanager is posted, and what a webhook is, signed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import httpx2
from kvxray_engine.clock import Clock
from kvxray_engine.errors import UserError

from kvxray_backend.delivery.alertmanager import alerts_body
from kvxray_backend.delivery.message import Message
from kvxray_backend.delivery.outcome import Outcome, Refused
from kvxray_backend.delivery.own_template import BadTemplate, OwnTemplate, read_template
from kvxray_backend.delivery.posting import TIMEOUT_S, post
from kvxray_backend.delivery.sample import SAMPLES
from kvxray_backend.delivery.signature import DELIVERY_HEADER, HEADER, signature
from kvxray_backend.delivery.slack_template import slack_body
from kvxray_backend.delivery.target import Target

VERSION: Final = 1
"""Of what the plain template sends; it grows by fields, and changes when one changes its meaning."""


class Sender(Protocol):
    """Raises nothing."""

    async def send(self, http: httpx2.AsyncClient, messages: Sequence[Message], delivery: str) -> Outcome: ...


class AlertmanagerSender:
    """All alerts of one POST become its alerts; the id of the delivery has no place there and needs none."""

    def __init__(self, target: Target, clock: Clock, timeout_s: float = TIMEOUT_S) -> None:
        self._target = target
        self._clock = clock
        self._timeout_s = timeout_s

    async def send(self, http: httpx2.AsyncClient, messages: Sequence[Message], delivery: str) -> Outcome:
        body = _json(alerts_body(messages, self._clock.wall_ns()))
        return await post(http, self._target, f"{self._target.url}/api/v2/alerts", body, {}, self._timeout_s)


class WebhookSender:
    """Signed where there is a secret. The body of a delivery is the same at each try, its signature is of the time."""

    def __init__(self, target: Target, clock: Clock, timeout_s: float = TIMEOUT_S) -> None:
        """Raises UserError for a template that cannot be read."""
        self._target = target
        self._clock = clock
        self._timeout_s = timeout_s
        is_file = target.template not in ("json", "slack")
        self._own: OwnTemplate | None = _tried_template(Path(target.template)) if is_file else None

    async def send(self, http: httpx2.AsyncClient, messages: Sequence[Message], delivery: str) -> Outcome:
        try:
            body = await self.body(messages, delivery)
        except BadTemplate as error:
            return Refused(f"Its template cannot be used: {error}.")
        headers = {DELIVERY_HEADER: delivery}
        if self._target.secret:
            headers[HEADER] = signature(self._target.secret, self._clock.wall_ns() // 1_000_000_000, body)
        return await post(http, self._target, self._target.url, body, headers, self._timeout_s)

    async def body(self, messages: Sequence[Message], delivery: str) -> bytes:
        """Raises BadTemplate."""
        if self._target.template == "slack":
            return _json(slack_body(messages))
        values = whole_body(messages, delivery)
        # A template may take its time, and others are not to wait for it.
        return _json(values) if self._own is None else await asyncio.to_thread(self._own.body, values)


def _tried_template(path: Path) -> OwnTemplate:
    """Raises UserError: also for one that can be read and does not work, together or for one alone."""
    template = read_template(path)
    try:
        for messages in (SAMPLES, SAMPLES[:1], SAMPLES[1:]):
            template.body(whole_body(messages, "sample"))
    except BadTemplate as error:
        raise UserError(f"Mend the template {path}: {error}.") from error
    return template


def whole_body(messages: Sequence[Message], delivery: str) -> dict[str, Any]:
    """What the plain template sends, and what a template of the user's own is given."""
    return {
        "version": VERSION,
        "generator": "kvxray",
        "delivery": delivery,
        "notifications": [message.as_json() for message in messages],
    }


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")
