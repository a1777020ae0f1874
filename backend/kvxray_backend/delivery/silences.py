"""What an Alertmanager says of our alerts: which are silenced, by whom and until when, which are inhibited. Its answers
are read as far as this needs, and believed as text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from kvxray_backend.alert_types import QuietView
from kvxray_backend.delivery.wording import capped

MAX_SILENCES: Final = 100
MAX_NOTE: Final = 500
_SILENCE_ID: Final = re.compile(r"[0-9a-zA-Z-]{1,64}")

LabelSet = frozenset[tuple[str, str]]
_T = TypeVar("_T")


class Status(msgspec.Struct, frozen=True):
    state: str = ""
    silenced_by: list[str] = msgspec.field(name="silencedBy", default_factory=list)
    inhibited_by: list[str] = msgspec.field(name="inhibitedBy", default_factory=list)
    muted_by: list[str] = msgspec.field(name="mutedBy", default_factory=list)


class ToldAlert(msgspec.Struct, frozen=True):
    """An alert as it stands there. `labels` name it."""

    labels: dict[str, str]
    fingerprint: str = ""
    status: Status = Status()


class Silence(msgspec.Struct, frozen=True):
    id: str
    created_by: str = msgspec.field(name="createdBy", default="")
    comment: str = ""
    ends_at: str = msgspec.field(name="endsAt", default="")


def alerts_in(answer: bytes) -> list[ToldAlert]:
    """Raises ValueError."""
    return _decoded(answer, list[ToldAlert])


def silence_in(answer: bytes) -> Silence:
    """Raises ValueError."""
    return _decoded(answer, Silence)


def label_set(labels: Mapping[str, str]) -> LabelSet:
    return frozenset(labels.items())


def silence_ids(alerts: Sequence[ToldAlert]) -> list[str]:
    """Those that concern our alerts, each once; only what can be a part of an address."""
    ids = dict.fromkeys(name for alert in alerts for name in alert.status.silenced_by if _SILENCE_ID.fullmatch(name))
    return list(ids)[:MAX_SILENCES]


def quiet_alerts(alerts: Sequence[ToldAlert], silences: Mapping[str, Silence], base: str) -> dict[LabelSet, QuietView]:
    """By their labels: those of which that Alertmanager tells nobody. base: its page."""
    found = {label_set(alert.labels): _quiet(alert, alerts, silences, base) for alert in alerts}
    return {labels: quiet for labels, quiet in found.items() if quiet is not None}


def _quiet(
    alert: ToldAlert, alerts: Sequence[ToldAlert], silences: Mapping[str, Silence], base: str
) -> QuietView | None:
    known = [silences[name] for name in alert.status.silenced_by if name in silences]
    if known:
        last = max(known, key=lambda silence: silence.ends_at)
        return QuietView(
            by=capped(last.created_by, 100) or "Alertmanager",
            until=capped(last.ends_at, 40) or None,
            note=capped(last.comment, MAX_NOTE),
            link=f"{base}/#/silences/{last.id}",
        )
    if alert.status.silenced_by:
        return _by_alertmanager("Silenced there; by whom could not be read.", f"{base}/#/silences")
    if alert.status.inhibited_by:
        names = {one.fingerprint: one.labels.get("alertname", "") for one in alerts}
        name = next((names[one] for one in alert.status.inhibited_by if names.get(one)), "another alert")
        return _by_alertmanager(f"Inhibited by {capped(name, 100)}.", f"{base}/#/alerts")
    if alert.status.muted_by:
        return _by_alertmanager(f"Muted by {capped(', '.join(alert.status.muted_by), 100)}.", f"{base}/#/alerts")
    return None


def _by_alertmanager(note: str, link: str) -> QuietView:
    return QuietView(by="Alertmanager", until=None, note=note, link=link)


def _decoded(answer: bytes, kind: type[_T]) -> _T:
    try:
        return msgspec.json.decode(answer, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"It says what is no answer of an Alertmanager: {str(error)[:120]}.") from error
