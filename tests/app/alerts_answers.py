"""Answers of `/api/alerts` and `/api/rules` as the backend gives them, made by its own types."""

from __future__ import annotations

from typing import Any

from kvxray_backend.alert_types import AlertsView, AlertView, RulesView, RuleView, TrialView
from kvxray_backend.alerts.alert import Alert, AlertMoment, AlertNumber
from kvxray_backend.analysis.finding import Finding, Subjects

SECOND = 1_000_000_000
BEGAN = 1_767_225_600 * SECOND
LOOKED = "2026-01-01T00:02:00.000Z"


def finding(sentence: str = "Request agent-3 was aborted and still holds 3 blocks.", **changed: Any) -> Finding:
    subjects = changed.pop("subjects", Subjects(blocks=(4, 5, 6), requests=("agent-3",)))
    told: dict[str, Any] = {
        "id": "f1", "kind": "leak", "severity": "warning", "source": "demo", "epoch": 1, "seq0": 40, "seq1": 90,
        "time_ns": BEGAN, "subjects": subjects, "sentence": sentence, **changed,
    }  # fmt: skip
    return Finding(**told)


def alert(id: str = "a1", rule: str = "LeakNamed", **changed: Any) -> Alert:
    """One that fires because of a leak of our own engine; or over, where `ended_s` says since when."""
    ended_s = changed.pop("ended_s", None)
    told: dict[str, Any] = {
        "id": id, "rule": rule, "severity": "warning", "engine": "demo", "state": "over" if ended_s else "firing",
        "labels": {"model": "tiny"}, "began_ns": BEGAN, "fired_ns": BEGAN + SECOND,
        "ended_ns": BEGAN + ended_s * SECOND if ended_s else None,
        "moment": AlertMoment(source="demo", epoch=1, seq=90, time_ns=BEGAN + SECOND),
        "sentence": "Requests that ended still hold blocks.",
        "culprit": "Request agent-3, aborted, holds blocks 4, 5 and 6.",
        "findings": (finding(),), "num_findings": 1,
        "numbers": (AlertNumber(words="Findings of leak", value=1, limit=1),), **changed,
    }  # fmt: skip
    return Alert(**told)


def view(of: Alert | None = None, **changed: Any) -> dict[str, Any]:
    shown = of or alert()
    link = f"./?source={shown.moment.source}&at={shown.moment.at}&mark={shown.id}"
    told: dict[str, Any] = {
        "alert": shown, "unknown_since": None, "link": link, "told": [], "quiet": None, "text": f"All of {shown.id}.",
    }  # fmt: skip
    return AlertView(**(told | changed)).model_dump(mode="json", by_alias=True)


def alerts_answer(*alerts: dict[str, Any], **changed: Any) -> dict[str, Any]:
    told: dict[str, Any] = {
        "alerts": list(alerts), "num": len(alerts), "pending": [], "targets": [], "mutes": [], "can_mute": True,
        "looked_at": LOOKED, "not_stored": "", "num_rules_on": 31,
    }  # fmt: skip
    told |= changed
    AlertsView.model_validate(told | {"alerts": []})
    return told


def target(name: str = "slack", **changed: Any) -> dict[str, Any]:
    return {
        "name": name, "kind": "webhook", "address": "https://hooks.example/…", "state": "ok", "waiting": 0,
        "error": "", "last_delivered": LOOKED, "next_try": None, **changed,
    }  # fmt: skip


def told(target: str = "slack", **changed: Any) -> dict[str, Any]:
    return {"target": target, "kind": "fired", "delivered": LOOKED, "attempts": 1, "error": "", **changed}


def mute(id: str = "m1", **changed: Any) -> dict[str, Any]:
    times = {"until": "2026-01-01T02:00:00.000Z", "created": LOOKED}
    return {"id": id, "rule": "LeakNamed", "engine": "demo", "note": "known", **times, **changed}


def rule(name: str = "LeakNamed", **changed: Any) -> dict[str, Any]:
    told: dict[str, Any] = {
        "name": name, "topic": "Blocks, by events", "severity": "warning",
        "sentence": "Requests that ended still hold blocks; the finding names them.",
        "when": ["a finding is open: `leak`, at least a warning"], "for_s": 0, "keep_firing_s": 60,
        "needs": "kvxray's own engine",
        "do": ["Open the moment and see who holds the blocks.", "Restart the engine where it does not stop."],
        "confirm": ["On the live page the blocks are hatched; **Block map** counts them."],
        "on_vllm": ["Compare `vllm:kv_cache_usage_perc` with what runs."], "on_sglang": ["See its pool in the log."],
        "trap": "A usage that stays high is no leak: cached blocks are no waste.", "origin": "built-in",
        "is_on": True, "text": "", "served": [{"engine": "demo", "state": "inactive", "why": ""}],
    } | changed  # fmt: skip
    if "meaning" in RuleView.model_fields:
        told.setdefault("meaning", "Blocks that nobody will give back are lost until the engine is restarted.")
    RuleView.model_validate(told)
    return told


def rules_answer(*rules: dict[str, Any], problems: list[str] | None = None) -> dict[str, Any]:
    answer = {"rules": list(rules), "problems": problems or []}
    RulesView.model_validate(answer)
    return answer


def trial(times: int = 3, **changed: Any) -> dict[str, Any]:
    """It would have fired so many times in a week."""
    fired = [
        {
            "engine": "demo", "began": LOOKED, "fired": f"2026-01-0{1 + at % 7}T00:02:00.000Z",
            "ended": f"2026-01-0{1 + at % 7}T00:04:00.000Z", "at": "1.90", "link": "./?source=demo&at=1.90",
            "culprit": "Request agent-3 holds 3 blocks.",
        }
        for at in range(times)
    ]  # fmt: skip
    answer = {
        "rule": "LeakNamed", "sentence": f"It would have fired {times} times in the last 7 days.", "from": LOOKED,
        "to": LOOKED, "fired": fired, "num_fired": times,
        "engines": [{"engine": "demo", "known_share": 0.5, "why": "Its history begins in between."}], **changed,
    }  # fmt: skip
    TrialView.model_validate(answer)
    return answer
