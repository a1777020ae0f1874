"""Moments as they are asked for: what was told of one leads to it again, and what is none is refused in a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from kvxray_backend.moments import Moment, Point, iso_time
from kvxray_backend.past import PastStates
from kvxray_engine.errors import UserError
from kvxray_storage.database import open_database
from kvxray_storage.event_log import EventLog

from tests.backend.past_told import all_events
from tests.backend.served import backend_of, caught_up, serving, source_of
from tests.backend.shifted_clock import ShiftedClock
from tests.backend.small_engine import SmallEngine
from tests.storage.test_clock_runs import tick, told_times
from tests.storage.told_messages import Teller, descriptor


@pytest.mark.parametrize(
    ("text", "begin_ns", "unit_ns"),
    [
        ("2026-11-30T06:00:00.123Z", 1_796_018_400_123_000_000, 1_000_000),
        ("2026-11-30T06:00:00Z", 1_796_018_400_000_000_000, 1_000_000),
        ("2026-11-30t06:00:00,5z", 1_796_018_400_500_000_000, 1_000_000),
        ("2026-11-30T06:00:00.123456", 1_796_018_400_123_456_000, 1000),
        ("2026-11-30T07:00:00.123456789 01:00", 1_796_018_400_123_456_789, 1),
        ("2026-11-30 00:30:00-05:30", 1_796_018_400_000_000_000, 1_000_000),
        ("2026-11-30", 1_795_996_800_000_000_000, 1_000_000),
    ],
)
def test_a_time_is_meant_as_finely_as_it_is_written(text: str, begin_ns: int, unit_ns: int) -> None:
    assert Moment.parse(text) == Moment(t_ns=begin_ns + unit_ns - 1, begin_ns=begin_ns)


@pytest.mark.parametrize(
    "text",
    ["", "now", "NaN", "-1.5", "1.-5", "1.1e3", "1_0.5", "3.1\n", "\u0663.\u0661", "1" * 400, "1." + "9" * 19, "\0",
     "2026-13-30", "2026-11-30T06:00:00+25:00", "\uff12\uff10\uff12\uff16-11-30", "2026-11-30T06:00:00.\u0661Z",
     "1796018400"],
)  # fmt: skip
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"^Write the moment as live, EPOCH\.SEQ or an ISO-8601 time, not .*\.$"):
        Moment.parse(text)


@pytest.fixture(scope="module")
def set_back(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient, list[dict[str, Any]]]]:
    """A source whose clock was set back by half of what it had lived; and all its events."""
    clock = ShiftedClock()
    folder: Path = tmp_path_factory.mktemp("set-back")
    with SmallEngine(clock=clock) as engine, serving(folder, source_of(engine)) as client:
        caught_up(client, engine)
        for set_back_ns in (10_000_000_000, 0):
            for _ in range(40):
                engine.work(1)
                clock.ahead_ns += 500_000_000
            caught_up(client, engine)
            clock.ahead_ns -= set_back_ns
        assert backend_of(client).log.flush(60)
        yield client, all_events(client)


def test_a_copied_time_leads_to_the_last_moment_of_which_it_is_told(
    set_back: tuple[TestClient, list[dict[str, Any]]],
) -> None:
    client, rows = set_back
    last_of = {row["time"]: row["seq"] for row in sorted(rows, key=lambda row: int(row["seq"][2:]))}
    lived_twice = max(row["time"] for row in rows[: len(rows) // 2])
    for told in [*list(last_of)[::9], rows[-1]["time"], lived_twice]:
        expected = max((seq for at, seq in last_of.items() if at <= told), key=lambda seq: int(seq[2:]))
        state = client.get("/api/state", params={"at": told}).json()
        assert state["seq"] == expected
        step = client.get("/api/step", params={"at": told, "by": "event", "n": 0}).json()
        assert (step["at"], step["time"]) == (expected, state["time"])
        # What is told of that moment leads to it again; in any zone.
        elsewhere = datetime.fromisoformat(state["time"]).astimezone(timezone(timedelta(hours=5, minutes=30)))
        for again in (state["time"], elsewhere.isoformat(timespec="milliseconds")):
            assert client.get("/api/state", params={"at": again}).json()["seq"] == expected


def test_a_time_told_while_the_clock_was_ahead_leads_there_though_what_came_later_began_before(tmp_path: Path) -> None:
    database = open_database(f"sqlite:///{tmp_path / 'kvxray.db'}")
    told: dict[str, list[int]] = {}
    with EventLog(database, chunk_events=30) as log:
        for life, ahead_s in (("one", 0), ("two", 200)):
            teller = Teller(incarnation=life)
            teller.t_ns += ahead_s * 10**9
            key = log.open_epoch("engine", {}, life, descriptor(), teller.t_ns)
            for name, set_by_s in ((f"{life}, right", 0), (f"{life}, ahead", 3600), (f"{life}, right again", -3590)):
                teller.t_ns += set_by_s * 10**9
                for _ in range(10):
                    message = tick(teller, 10**9)
                    assert log.append(key, message)
                told[name] = [key.epoch, told_times([message])[-1][0], message.header.seq0 + message.header.n - 1]
        assert log.flush(60)
    past = PastStates(database)
    for epoch, t_ns, seq in told.values():
        assert past.point_of("engine", Moment.parse(iso_time(t_ns))) == Point(epoch, seq)
    # Between what was lived, and after all of it: the last event at or before, in the order they happened.
    for name, later_s in (("one, right again", 60), ("two, right again", 60), ("two, ahead", 9999)):
        epoch, _, seq = told["one, right again" if name.startswith("one") else "two, right again"]
        asked = Moment.parse(iso_time(told[name][1] + later_s * 10**9))
        assert past.point_of("engine", asked) == Point(epoch, seq)
    database.close()


def test_every_time_within_the_epoch_is_a_moment_and_before_it_the_first_is_named(
    set_back: tuple[TestClient, list[dict[str, Any]]],
) -> None:
    client, rows = set_back
    first, *_, last = sorted(row["time"] for row in rows)
    begin, end = datetime.fromisoformat(first), datetime.fromisoformat(last)
    for part in range(24):
        at = (begin + (end - begin) * part / 23).isoformat(timespec="milliseconds")
        assert client.get("/api/step", params={"at": at, "by": "event", "n": 0}).status_code == 200
    too_early = client.get("/api/state", params={"at": (begin - timedelta(milliseconds=1)).isoformat()})
    assert too_early.status_code == 404
    seq = next(row["seq"] for row in rows if row["time"] == first)
    sentence = f"Nothing is stored of the source engine from so early: its first moment is {seq} at {first}."
    assert too_early.json() == {"error": sentence}
    assert client.get("/api/step", params={"at": first, "by": "step", "n": 0}).status_code == 200


@pytest.mark.parametrize(
    ("path", "query"),
    [
        (path, query | {name: value})
        for path, query, name in [
            ("state", {}, "at"), ("summary", {}, "at"), ("state/blocks", {}, "at"), ("blocks/1", {}, "at"),
            ("step", {"by": "step"}, "at"), ("step", {"at": "1.5", "by": "event"}, "n"), ("step", {"at": "1.5"}, "by"),
            ("diff", {"to": "1.5"}, "from"), ("diff", {"from": "1.5"}, "to"),
            ("diff", {"from": "1.5", "to": "1.6"}, "limit"), ("state/delta", {"from": "1.5"}, "to"),
            ("timeline", {}, "from"), ("timeline", {}, "to"), ("timeline", {}, "points"),
            ("requests/a/history", {}, "at"), ("hashes/00ff", {}, "limit"), ("events", {}, "from"),
        ]
        for value in ("", "NaN", "-1", "1e309", "9" * 30, "\u0663\u0661", "999999999.999999999999999999", "\0", "0.5\n")
    ],
)  # fmt: skip
def test_strange_questions_are_answered_by_one_sentence(
    set_back: tuple[TestClient, list[dict[str, Any]]], path: str, query: dict[str, str]
) -> None:
    client, _ = set_back
    answer = client.get(f"/api/{path}", params=query)
    if answer.status_code == 200:
        assert query == {"at": "1.5", "by": "event", "n": "-1"}
        return
    assert 400 <= answer.status_code < 500, answer.text
    assert set(answer.json()) == {"error"}
    sentence = answer.json()["error"]
    assert sentence.endswith(".")
    assert len(sentence) < 200


def test_times_are_told_to_the_millisecond_below() -> None:
    assert iso_time(1_796_018_400_123_999_999) == "2026-11-30T06:00:00.123Z"
