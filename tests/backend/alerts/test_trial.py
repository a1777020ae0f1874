"""A rule tried on history says what the watch would have said, look by look."""

from __future__ import annotations

import json
from bisect import bisect_right
from contextlib import closing

import pytest
from kvxray_backend import cli
from kvxray_backend.alerts.alert_book import AlertBook, Now
from kvxray_backend.alerts.evidence import Evidence
from kvxray_backend.alerts.expression import All, Compare, Constant, FigureNow, Found, Grown, Highest
from kvxray_backend.alerts.expression import Now as Gauge
from kvxray_backend.alerts.past_engine import PastEngine
from kvxray_backend.alerts.rule import Rule
from kvxray_backend.alerts.trial import TooMuch, moments, tried
from kvxray_backend.alerts.trial_desk import when_ns
from kvxray_backend.alerts.trial_view import BY_MINUTE, trial_view
from kvxray_backend.alerts.watched import Watched
from kvxray_backend.analysis.finding import Finding
from kvxray_backend.metrics.minute import Counted, Stood, Stretch
from kvxray_backend.metrics.minute_packing import pack
from kvxray_backend.signal_history import Timed
from kvxray_backend.stored_findings import row_of
from kvxray_engine.errors import UserError
from kvxray_storage.database import open_database
from kvxray_storage.event_log import EventLog
from kvxray_storage.signal_minutes import SignalMinute, store_minutes

T0_S = 1_800_000_000
NS = 10**9
HOUR_S = 3_600


def rule(when, for_s=0, keep_firing_s=0, served_by=("vllm",)):
    return Rule("R", "warning", when, for_s, served_by, "So it is.", (), "", keep_firing_s)


FULL = Compare(Gauge("kv_usage"), ">", Constant(0.9), Constant(0.8))


def minutes(usage, every_s=60):
    return [
        Timed(T0_S + number * every_s, every_s, Stretch({
            ("kv_usage", ""): Stood(value, value, value), ("preemptions", ""): Counted(value * 10, every_s),
        }))
        for number, value in enumerate(usage) if value is not None
    ]  # fmt: skip


def finding(begin_s, end_s, number=1):
    one = Finding(
        id=f"leak:b:1:{number}", kind="leak", severity="critical", source="b", epoch=1, seq0=0, seq1=0,
        time_ns=(T0_S + begin_s) * NS, sentence=f"Request {number} leaks.",
    )  # fmt: skip
    return one if end_s is None else one.ended((T0_S + end_s) * NS)


DAYS = 1


def days():
    """Usage that goes up and down, with holes; and leaks of an engine of blocks."""
    usage = [None if number % 300 < 10 else 0.95 if number % 200 < 40 else 0.3 for number in range(DAYS * 1_440)]
    metrics = PastEngine("a", frozenset(("vllm",)), minutes(usage))
    leaks = [finding(at_s, at_s + 900, number) for number, at_s in enumerate(range(50, DAYS * 86_400, 9_001))]
    blocks = PastEngine("b", frozenset(("blocks",)), (), leaks, [(T0_S * NS, (T0_S + DAYS * 86_400) * NS)])
    return [metrics, blocks]


def test_what_was_open_was_seen_though_the_engines_clock_is_not_ours():
    """It is 15 minutes behind, and we have followed it for one."""
    span = ((T0_S + 3_540) * NS, (T0_S + 3_600) * NS)
    leaks = [finding(2_700, None), finding(100, 400, 2)]
    engine = PastEngine("b", frozenset(("blocks",)), (), leaks, [span])
    leaking = rule(Found(("leak",)), served_by=("blocks",))
    trial = tried(leaking, [engine], T0_S * NS, (T0_S + 3_600) * NS)
    fired = sorted(one.fired_ns // NS - T0_S for one in trial.fired.values())
    assert fired == [100, 2_700]
    known = [engine.at((T0_S + second) * NS).evidence.findings is not None for second in (50, 100, 400, 500, 2_700)]
    assert known == [False, True, True, False, True]


def _as_told_by_then(engine, t_ns):
    """As a watch has it, which knows nothing of what comes later."""
    end = bisect_right(engine.told, t_ns / NS, key=lambda one: one.at_s)
    told = engine.told[max(end - 30, 0) : end]
    begun = [one for one in engine.findings if one.time_ns <= t_ns]
    open_then = [one if (one.ended_ns or t_ns + 1) <= t_ns else _opened(one) for one in begun]
    return Watched(engine.name, Evidence(told, open_then), engine.serves)


def _opened(one):
    return one.model_copy(update={"state": "open", "ended_ns": None})


@pytest.mark.parametrize(
    "tried_rule",
    [
        rule(FULL, 600, 300),
        rule(All((FULL, Compare(Grown("preemptions", 600), ">", Constant(50)))), 60),
        rule(Found(("leak",)), 0, 60, ("blocks",)),
    ],
    ids=["gauge", "gauge and counter", "finding"],
)
def test_days_tried_are_what_the_watch_would_have_said_look_by_look(tried_rule):
    engines, end_ns = days(), (T0_S + DAYS * 86_400) * NS
    trial = tried(tried_rule, engines, T0_S * NS, end_ns)
    fired, ended = {}, {}
    numbers = iter(range(10_000))
    book = AlertBook(lambda: str(next(numbers)), lambda *what: pytest.fail(str(what)))
    for t_ns in moments(engines, T0_S * NS, end_ns):
        known = [_as_told_by_then(one, t_ns) for one in engines]
        for change in book.look({"R": tried_rule}, known, Now(t_ns / NS, t_ns / NS, t_ns)):
            (fired if change.kind == "fired" else ended)[change.alert.fired_ns] = change.alert
    assert len(fired) > 3
    assert {one.fired_ns for one in trial.fired.values()} == set(fired)
    over = {one.ended_ns for one in trial.fired.values() if one.state == "over"}
    assert over == {one.ended_ns for one in ended.values()}


def test_a_finding_fires_when_it_began_and_is_over_when_it_ended():
    engine = PastEngine("b", frozenset(("blocks",)), (), [finding(77, 333)], [(T0_S * NS, (T0_S + HOUR_S) * NS)])
    trial = tried(rule(Found(("leak",)), served_by=("blocks",)), [engine], T0_S * NS, (T0_S + HOUR_S) * NS)
    [alert] = trial.fired.values()
    assert (alert.fired_ns, alert.ended_ns) == ((T0_S + 77) * NS, (T0_S + 333) * NS)
    view = trial_view(trial, [engine])
    assert view.sentence == "It would have fired once in 1 hour, over 1 engine."
    assert view.fired[0].culprit == "Request 1 leaks."
    assert view.engines[0].known_share == 1


def test_what_was_not_watched_is_not_known_and_says_why():
    engine = PastEngine("b", frozenset(("blocks",)), (), [], [(T0_S * NS, (T0_S + HOUR_S // 2) * NS)])
    view = trial_view(
        tried(rule(Found(("leak",)), served_by=("blocks",)), [engine], T0_S * NS, (T0_S + HOUR_S) * NS), [engine]
    )
    assert 0.4 < view.engines[0].known_share < 0.6
    assert view.engines[0].why
    figures = rule(Compare(FigureNow("used"), ">", Constant(0.5)), served_by=("blocks",))
    view = trial_view(tried(figures, [engine], T0_S * NS, (T0_S + HOUR_S) * NS), [engine])
    assert "figures" in view.engines[0].why
    assert view.sentence == "Nothing that is stored of 1 hour can tell it."
    of_metrics = trial_view(tried(rule(FULL), [engine], T0_S * NS, (T0_S + HOUR_S) * NS), [engine])
    assert of_metrics.engines[0].why == "It needs metrics of vLLM."


@pytest.mark.parametrize(("every_s", "is_told"), [(60, True), (5, False)])
def test_what_is_known_by_the_minute_is_said_to_be_derived(every_s, is_told):
    engine = PastEngine("a", frozenset(("vllm",)), minutes([0.3] * 30 + [0.95] * 30, every_s))
    trial = tried(rule(FULL), [engine], T0_S * NS, (T0_S + 60 * every_s) * NS)
    sentence = trial_view(trial, [engine]).sentence
    assert sentence.startswith("It would have fired once in ")
    assert sentence.endswith(BY_MINUTE) == is_told


def test_a_spike_of_a_few_seconds_is_found_in_a_minute_by_its_highest_and_not_by_its_mean():
    """Eleven readings of 0.3 and one of 0.97, as they are stored."""
    spike = Timed(T0_S + 600, 60, Stretch({("kv_usage", ""): Stood(11 * 0.3 + 0.97, 0.3, 0.97, 12)}))
    told = [spike if one.at_s == spike.at_s else one for one in minutes([0.3] * 30)]
    engine = PastEngine("a", frozenset(("vllm",)), told)
    by_highest = Compare(Highest("kv_usage", 300), ">", Constant(0.9))
    fired = {
        name: len(tried(rule(when), [engine], T0_S * NS, (T0_S + 1_800) * NS).fired)
        for name, when in (("mean", FULL), ("highest", by_highest))
    }
    assert fired == {"mean": 0, "highest": 1}


def test_what_would_take_too_long_is_refused():
    engines = [PastEngine(str(number), frozenset(("vllm",))) for number in range(100)]
    with pytest.raises(TooMuch):
        tried(rule(FULL), engines, T0_S * NS, (T0_S + 15 * 86_400) * NS)
    with pytest.raises(TooMuch):
        tried(rule(FULL), engines[:1], T0_S * NS, (T0_S + 86_400) * NS, lambda: False)


def test_the_command_tells_what_the_log_holds_beside_a_server_that_writes(tmp_path, capsys):
    url, begin = f"sqlite:///{tmp_path / 'kvxray.db'}", when_ns("2h", T0_S * NS) // NS
    with closing(open_database(url)) as database, EventLog(database) as log:
        rows = [
            SignalMinute("a", begin // 60 * 60 + 60 * n, pack(one.stretch))
            for n, one in enumerate(minutes([0.3] * 30 + [0.95] * 30 + [0.3] * 60))
        ]
        log.errand(lambda connection: store_minutes(connection, rows)).result(30)
        log.finding(row_of(finding(-3_000, None).model_copy(update={"source": "a"})))
        log.flush(30)
        own = tmp_path / "own.yaml"
        own.write_text("rules:\n  - {name: Full, sentence: It is full., when: [{now: kv_usage, above: 0.9}]}\n")
        stretch = ["--from", "2027-01-15T06:00:00Z", "--to", "2027-01-15T08:00:00Z", "--database", url]
        assert cli.main(["alerts", "test", "--own", str(own), *stretch]) == 0
        told = capsys.readouterr().out
        assert told.startswith("Full: It would have fired once in 2 hours, over 1 engine.")
        assert cli.main(["alerts", "test", "--own", str(own), "--json", *stretch]) == 0
        assert json.loads(capsys.readouterr().out)[0]["num_fired"] == 1
        assert cli.main(["alerts", "test", "--rule", "NoSuchRule", *stretch]) == 2


@pytest.mark.parametrize("text", ["", "live", "1.5", "0s", "-5m", "none", "9" * 80, "2026-12-01T10:00:00+99:99"])
def test_what_is_no_time_is_refused_with_the_ways_to_write_one(text):
    with pytest.raises(UserError, match="Write a time as now, 7d, or an ISO-8601 time"):
        when_ns(text, T0_S * NS)
