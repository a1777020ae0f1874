"""What is sent of one alert, whatever its form: the alert, its words and its links."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kvxray_storage.outbox import NotificationKind

from kvxray_backend.alerts.alert import Alert
from kvxray_backend.alerts.links import rule_link, whole_link
from kvxray_backend.alerts.rule import Rule
from kvxray_backend.analysis.finding import Finding
from kvxray_backend.delivery.notice import Notice
from kvxray_backend.delivery.wording import description, summary
from kvxray_backend.settings import Settings

MAX_SUBJECTS: Final = 10
"""Of each finding; its numbers count them all."""


@dataclass(frozen=True, slots=True)
class Message:
    """`id`: of the notification, the same however often it is sent. `link`: to the moment; `runbook`: to the rule."""

    id: str
    kind: NotificationKind
    alert: Alert
    summary: str
    description: str
    link: str
    runbook: str

    def as_json(self) -> dict[str, Any]:
        """What templates know, and what the plain one sends."""
        findings = tuple(_with_few_subjects(finding) for finding in self.alert.findings)
        # Through text: what is no number of JSON, such as an infinite one, becomes null.
        alert = json.loads(self.alert.model_copy(update={"findings": findings}).model_dump_json())
        return {
            "id": self.id,
            "kind": self.kind,
            "summary": self.summary,
            "description": self.description,
            "link": self.link,
            "runbook": self.runbook,
            "alert": alert,
        }


class MessageMaker:
    """Knows what belongs to an alert and does not stand in it: its links, and what its rule says to do."""

    def __init__(self, settings: Settings, link: Callable[[Alert], str], rule_of: Callable[[str], Rule | None]) -> None:
        self._settings = settings
        self._link = link
        self._rule_of = rule_of

    def of(self, notice: Notice) -> Message:
        alert = notice.alert_then
        return self.of_alert(notice.row.id, notice.row.kind, alert)

    def of_alert(self, name: str, kind: NotificationKind, alert: Alert) -> Message:
        rule = self._rule_of(alert.rule)
        steps: Sequence[str] = rule.do if rule is not None else ()
        return Message(
            id=name,
            kind=kind,
            alert=alert,
            summary=summary(alert),
            description=description(alert, steps),
            link=self._link(alert),
            runbook=whole_link(self._settings, rule_link(alert.rule)),
        )


def _with_few_subjects(finding: Finding) -> Finding:
    subjects = finding.subjects
    few = subjects.model_copy(
        update={name: getattr(subjects, name)[:MAX_SUBJECTS] for name in type(subjects).model_fields}
    )
    return finding.model_copy(update={"subjects": few})
