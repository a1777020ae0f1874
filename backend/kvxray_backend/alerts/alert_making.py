"""An alert out of a rule that fires and what it rests on: findings, numbers, and who is to blame. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kvxray_backend.alerts import rule_words
from kvxray_backend.alerts.alert import MAX_FINDINGS, MAX_SUBJECTS, Alert, AlertNumber
from kvxray_backend.alerts.evaluation import Look
from kvxray_backend.alerts.expression import All, Any, Compare, Condition, Found
from kvxray_backend.alerts.rule import Rule
from kvxray_backend.alerts.watched import Subject
from kvxray_backend.analysis.finding import Finding, Subjects
from kvxray_backend.analysis.leaks import lasting

_GRAVEST_FIRST = ("critical", "warning", "info")


@dataclass(frozen=True, slots=True)
class Grounds:
    """What makes a rule hold at a moment: findings the gravest first, and what was compared."""

    findings: tuple[Finding, ...]
    numbers: tuple[AlertNumber, ...]


def grounds(rule: Rule, look: Look) -> Grounds:
    parts = [*_that_hold(rule.when, look)]
    found = {one.id: lasting(one) for part in parts if isinstance(part, Found) for one in look.findings(part)}
    numbers = [_compared(part, look) for part in parts if isinstance(part, Compare)]
    return Grounds(gravest_first(found.values()), tuple(numbers))


def gravest_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Of equals the oldest first, so that who was to blame first stays."""
    return tuple(sorted(findings, key=lambda one: (_GRAVEST_FIRST.index(one.severity), one.time_ns, one.id)))


def made(id: str, rule: Rule, subject: Subject, on: Grounds, began_ns: int, fired_ns: int) -> Alert:
    """began_ns: since when the condition was seen to hold; what it rests on may be older, and then so is it."""
    gravest = on.findings[0] if on.findings else None
    oldest_ns = min((one.time_ns for one in on.findings if one.time_ns > 0), default=began_ns)
    return Alert(
        id=id,
        rule=rule.name,
        severity=rule.severity,
        engine=subject.name,
        labels={name: value for name, value in subject.labels.items() if value},
        state="firing",
        began_ns=min(began_ns, oldest_ns, fired_ns),
        fired_ns=fired_ns,
        moment=subject.moment(gravest),
        sentence=rule.sentence,
        culprit=gravest.sentence if gravest is not None else "",
        findings=told(on.findings[:MAX_FINDINGS]),
        num_findings=len(on.findings),
        numbers=on.numbers,
    )


def gone_on(alert: Alert, on: Grounds) -> Alert:
    """The same alert, whose rule holds still, with what it rests on by now; what it compared when it fired stays.

    What is over is to blame no longer, such as what an engine did that has been restarted since, and comes last.
    """
    still = {one.id for one in on.findings if one.state == "open"}
    merged = gravest_first({one.id: one for one in (*alert.findings, *on.findings)}.values())
    merged = tuple(sorted(merged, key=lambda one: one.id not in still))
    listed, num = merged[:MAX_FINDINGS], max(alert.num_findings, len(on.findings), len(merged))
    if [one.id for one in listed] == [one.id for one in alert.findings] and num == alert.num_findings:
        return alert
    return alert.model_copy(update={"findings": told(listed), "num_findings": num, "culprit": listed[0].sentence})


def told(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """With `MAX_SUBJECTS` subjects in all, those of the first findings first: an alert is sent, and listed with others;
    the numbers of each finding count them all, and the finding itself has them.
    """
    cut, left = list[Finding](), MAX_SUBJECTS
    for one in findings:
        subjects = dict[str, tuple[int | str, ...]]()
        for name in type(one.subjects).model_fields:
            subjects[name] = getattr(one.subjects, name)[:left]
            left -= len(subjects[name])
        kept = Subjects.model_validate(subjects)
        cut.append(one if kept == one.subjects else one.model_copy(update={"subjects": kept}))
    return tuple(cut)


def over(alert: Alert, ended_ns: int, because: str = "") -> Alert:
    """because: why, where nobody saw its condition end."""
    ended_ns = max(ended_ns, alert.fired_ns)
    return alert.model_copy(update={"state": "over", "ended_ns": ended_ns, "over_because": because})


def _that_hold(node: Condition, look: Look) -> Iterator[Condition]:
    """Those of which the condition is made, without the ways of an `any` that do not hold."""
    if isinstance(node, All):
        for one in node.of:
            yield from _that_hold(one, look)
    elif isinstance(node, Any):
        for one in node.of:
            if look.holds(one):
                yield from _that_hold(one, look)
    else:
        yield node


def _compared(node: Compare, look: Look) -> AlertNumber:
    right = node.clear if look.is_firing and node.clear is not None else node.right
    return AlertNumber(words=rule_words.number(node.left), value=look.number(node.left), limit=look.number(right))
