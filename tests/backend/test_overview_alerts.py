"""The alerts that fire, in `/api/overview`: the gravest first, each with where all of it is told; none of the past."""

from __future__ import annotations

from pathlib import Path

import pytest
from kvxray_backend.alerts.alert import Alert, AlertMoment
from kvxray_backend.analysis.finding import Severity
from kvxray_backend.overview_alerts import listed

from tests.backend.served import backend_of, caught_up, serving, source_of
from tests.backend.small_engine import SmallEngine

SECOND = 10**9


def alert(at: int, severity: Severity = "warning", culprit: str = "") -> Alert:
    return Alert(
        id=f"a{at}",
        rule="LeakNamed",
        severity=severity,
        engine="east",
        state="firing",
        began_ns=1_800_000_000 * SECOND,
        fired_ns=1_800_000_060 * SECOND,
        moment=AlertMoment(source="east", epoch=1, seq=9, time_ns=1_800_000_060 * SECOND),
        sentence="Requests that ended still hold blocks.",
        culprit=culprit,
    )


def test_an_alert_is_told_in_short_with_who_is_to_blame() -> None:
    (told,) = listed([alert(1, "critical", "Request r1 still holds 7 blocks.")])
    assert (told.id, told.rule, told.severity, told.engine) == ("a1", "LeakNamed", "critical", "east")
    assert told.since == "2027-01-15T08:00:00.000Z"
    assert told.sentence == "Request r1 still holds 7 blocks."
    assert told.link == "alerts?id=a1"


def test_where_nobody_is_known_to_be_to_blame_it_says_what_is_wrong() -> None:
    assert listed([alert(1)])[0].sentence == "Requests that ended still hold blocks."


def test_the_overview_lists_a_few_counts_all_and_none_of_the_past(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SmallEngine() as engine, serving(tmp_path, source_of(engine)) as client:
        engine.work(5)
        caught_up(client, engine)
        firing = [alert(at) for at in range(12)]
        monkeypatch.setattr(backend_of(client).alerts, "active", lambda: firing)
        then = client.get("/api/overview", params={"at": "1.3"}).json()
        assert (then["alerts"], then["num_alerts"]) == ([], None)
        monkeypatch.setattr("kvxray_backend.overview.KEEP_S", 0.0)
        now = client.get("/api/overview").json()
        assert [one["id"] for one in now["alerts"]] == [f"a{at}" for at in range(10)]
        assert now["num_alerts"] == 12
