"""The book of alerts, over any course of verdicts, engines that come and go, rules that are switched, and clocks."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kvxray_backend.alerts.alert import MAX_FINDINGS, MAX_SUBJECTS, AlertMoment
from kvxray_backend.alerts.alert_book import EXPECTED_S, GONE_AFTER_S, NOT_WATCHED, RULE_OFF, AlertBook, Now
from kvxray_backend.alerts.alert_rows import alert_row
from kvxray_backend.alerts.evidence import Evidence
from kvxray_backend.alerts.expression import Found
from kvxray_backend.alerts.rule import Rule
from kvxray_backend.alerts.steady_time import SETTLE_S, SteadyTime
from kvxray_backend.alerts.watched import Watched
from kvxray_backend.analysis.finding import Finding, Subjects

T0 = 1_800_000_000


def rule(name="R", for_s=0, keep_firing_s=0):
    return Rule(name, "warning", Found(("leak",)), for_s, ("blocks",), "It leaks.", (), "", keep_firing_s)


def finding(number=0, severity="warning", at_s=T0):
    return Finding(
        id=f"leak:a:1:{number}", kind="leak", severity=severity, source="a", epoch=1, seq0=0, seq1=0,
        time_ns=int(at_s * 1e9), sentence=f"Request {number} leaks.",
    )  # fmt: skip


def engine(name="a", findings=()):
    def moment(found):
        return AlertMoment(source=found.source if found else name, epoch=1, seq=7, time_ns=T0 * 10**9)

    known = None if findings is None else list(findings)
    return Watched(name, Evidence((), known), frozenset(("blocks",)), {"pod": "p"}, moment=moment)


def now(at_s):
    return Now(T0 + at_s, at_s, int((T0 + at_s) * 1e9))


def a_book():
    numbers = count(1)

    def stumbled(rule, engine, error):
        raise error

    return AlertBook(lambda: str(next(numbers)), stumbled)


RULE = rule()


def look(book, at_s, *engines, rules=(RULE,)):
    return [(one.kind, one.alert) for one in book.look({one.name: one for one in rules}, engines, now(at_s))]


def test_an_alert_has_the_moment_the_gravest_finding_and_the_beginning_of_what_it_rests_on():
    book = a_book()
    findings = [finding(1, at_s=T0 - 50), finding(2, "critical", at_s=T0 - 20)]
    [(kind, alert)] = look(book, 0, engine(findings=findings))
    assert kind == "fired"
    assert (alert.culprit, alert.num_findings, alert.moment.at) == ("Request 2 leaks.", 2, "1.7")
    assert (alert.began_ns, alert.fired_ns) == ((T0 - 50) * 10**9, T0 * 10**9)
    assert [one.id for one in alert.findings] == ["leak:a:1:2", "leak:a:1:1"]


def test_what_is_found_later_is_evidence_of_the_same_alert_and_who_was_to_blame_first_stays():
    book = a_book()
    [(_, fired)] = look(book, 0, engine(findings=[finding(1)]))
    [(kind, changed)] = look(book, 5, engine(findings=[finding(1), finding(2, at_s=T0 + 4)]))
    assert (kind, changed.id, changed.num_findings) == ("changed", fired.id, 2)
    assert changed.culprit == fired.culprit


def test_what_is_over_while_the_alert_goes_on_stays_evidence_and_is_to_blame_no_longer():
    """Such as a leak of an engine that was restarted, and leaks again."""
    book = a_book()
    [(_, fired)] = look(book, 0, engine(findings=[finding(1)]))
    [(kind, changed)] = look(book, 5, engine(findings=[finding(2, at_s=T0 + 4)]))
    assert (kind, changed.id, changed.num_findings) == ("changed", fired.id, 2)
    assert changed.culprit == "Request 2 leaks."
    assert [one.id for one in changed.findings] == ["leak:a:1:2", "leak:a:1:1"]
    assert look(book, 10, engine(findings=[finding(2, at_s=T0 + 4)])) == []
    [(_, many)] = look(book, 15, engine(findings=[finding(n, at_s=T0 + n) for n in range(60)]))
    assert (len(many.findings), many.num_findings) == (MAX_FINDINGS, 60)


def test_of_three_thousand_leaks_of_a_thousand_hashes_each_an_alert_stays_small():
    hashes = Subjects(requests=("culprit",), hashes=tuple(f"{number:064x}" for number in range(1_000)))
    leaks = [finding(number).model_copy(update={"subjects": hashes}) for number in range(3_000)]
    book = a_book()
    [(_, fired)] = look(book, 0, engine(findings=leaks[:1]))
    [(_, changed)] = look(book, 5, engine(findings=leaks))
    for alert, num in ((fired, 1), (changed, 3_000)):
        assert alert.num_findings == num
        told = [one.subjects for one in alert.findings]
        assert sum(len(one.requests) + len(one.hashes) for one in told) == MAX_SUBJECTS
        assert (told[0].requests, len(told[0].hashes)) == (("culprit",), MAX_SUBJECTS - 1)
        assert len(alert_row(alert).evidence) < 100_000


def test_nobody_knowing_does_not_end_it_and_knowing_does():
    book = a_book()
    look(book, 0, engine(findings=[finding()]))
    assert look(book, 5, engine(findings=None)) == []
    state = book.state_of(("R", "a"))
    assert state is not None
    assert state.unknown_since_s == 5
    [(kind, alert)] = look(book, 10, engine())
    assert (kind, alert.ended_ns, alert.over_because) == ("over", int((T0 + 10) * 1e9), "")


def test_an_engine_that_is_watched_no_more_ends_its_alerts_and_one_that_is_back_at_once_does_not():
    book = a_book()
    look(book, 0, engine(findings=[finding()]))
    assert look(book, 5) == []
    assert look(book, 10, engine(findings=[finding()])) == []
    assert look(book, 15) == []
    [(kind, alert)] = look(book, 15 + GONE_AFTER_S)
    assert (kind, alert.over_because) == ("over", NOT_WATCHED)


def test_a_rule_that_is_switched_off_ends_its_alerts():
    book = a_book()
    look(book, 0, engine(findings=[finding()]))
    [(kind, alert)] = look(book, 5, engine(findings=[finding()]), rules=())
    assert (kind, alert.over_because) == ("over", RULE_OFF)


def test_what_fired_before_a_restart_goes_on_under_its_id_and_ends_when_it_is_known_to():
    before, book = a_book(), a_book()
    [(_, alert)] = look(before, 0, engine(findings=[finding()]))
    assert book.take_over([alert], {"R": rule()}, now(100)) == []
    assert look(book, 105) == [], "its engine is attached only later"
    assert look(book, 200, engine(findings=[finding()])) == []
    assert [one.id for one in book.firing.values()] == [alert.id]
    [(kind, over)] = look(book, 205, engine())
    assert (kind, over.id) == ("over", alert.id)


def test_what_fired_before_a_restart_ends_where_its_engine_does_not_come_back():
    before, book = a_book(), a_book()
    [(_, alert)] = look(before, 0, engine(findings=[finding()]))
    book.take_over([alert], {"R": rule()}, now(100))
    assert look(book, 100 + EXPECTED_S - 1) == []
    [(kind, over)] = look(book, 100 + EXPECTED_S)
    assert (kind, over.over_because) == ("over", NOT_WATCHED)


LOOKS = st.tuples(
    st.floats(0.1, 400),
    st.booleans(),
    st.dictionaries(st.sampled_from("ab"), st.sampled_from(["none", "unknown", "one", "many"]), max_size=2),
)
FOUND = {"none": (), "unknown": None, "one": [finding(1)], "many": [finding(1), finding(2, "critical")]}


@settings(max_examples=150, deadline=None)
@given(st.lists(LOOKS, max_size=25), st.sampled_from([0, 60]), st.sampled_from([0, 60]))
def test_of_a_rule_and_an_engine_at_most_one_fires_and_each_ends_once(looks, for_s, keep_firing_s):
    book, at_s = a_book(), 0.0
    fired, ended = {}, {}
    for step_s, is_on, told in looks:
        at_s += step_s
        engines = [engine(name, FOUND[what]) for name, what in told.items()]
        for kind, alert in look(book, at_s, *engines, rules=(rule("R", for_s, keep_firing_s),) if is_on else ()):
            if kind == "fired":
                assert all(one in ended or fired[one].engine != alert.engine for one in fired)
                fired[alert.id] = alert
            elif kind == "over":
                assert alert.id in fired
                assert alert.id not in ended
                ended[alert.id] = alert
                assert alert.began_ns <= alert.fired_ns <= alert.ended_ns
            assert alert.began_ns <= alert.fired_ns
        book.check_integrity()
        assert {one.id for one in book.firing.values()} == set(fired) - set(ended)


@pytest.mark.parametrize(
    ("wall_step_s", "steady_step_s"),
    [(-3_600, 5), (3_600, 5), (600, 600)],
    ids=["set back", "set forward, or asleep", "nobody looked"],
)
def test_a_jump_of_the_clock_is_waited_out(wall_step_s, steady_step_s):
    wall_s, steady_s = [T0], [100.0]
    clock = SteadyTime(lambda: int(wall_s[0] * 1e9), lambda: steady_s[0])
    first = clock.now()
    assert first is not None
    wall_s[0] += wall_step_s
    steady_s[0] += steady_step_s
    assert clock.now() is None
    wall_s[0] += SETTLE_S
    steady_s[0] += SETTLE_S
    after = clock.now()
    assert after is not None
    assert after.at_s == wall_s[0], "what evidence tells of then is let go where the clock was set back"
    assert after.wall_ns == int(wall_s[0] * 1e9)
