"""A real Alertmanager: alerts arrive with their labels and resolve; what it silences is shown as silenced here."""

from __future__ import annotations

import time
import urllib.request

import pytest
from kvxray_backend.alerts.alert import AlertMoment

from tests.backend.delivery.alertmanager_server import Alertmanager
from tests.backend.delivery.sent_alerts import SECOND_NS, made_alert
from tests.backend.served import until
from tests.debian_program import debian_program

LEAK, OTHER = ("LeakNamed", "engine-a"), ("LeakNamed", "engine-b")


@pytest.fixture
def make_alertmanager(tmp_path):
    program = debian_program("prometheus-alertmanager", "prometheus-alertmanager")
    made = []

    def make():
        folder = tmp_path / f"alertmanager-{len(made)}"
        folder.mkdir()
        made.append(Alertmanager(program, folder))
        return made[-1]

    yield make
    for one in made:
        one.kill()


@pytest.fixture
def alertmanager(make_alertmanager):
    one = make_alertmanager()
    one.start()
    return one


def test_an_alert_arrives_with_its_labels_and_links_and_resolves(alertmanager, sending):
    one = sending(alertmanagers=alertmanager.url)
    alert = made_alert(
        labels={"cluster": "east", "pod": "vllm-0", "model.name": "m" * 500, "severity": "mine", "9": ""}
    )
    one.fire(alert)
    there = until(lambda: alertmanager.alerts().get(LEAK))
    assert there["labels"] == {
        "alertname": "LeakNamed", "severity": "warning", "engine": "engine-a", "source": "engine-a",
        "generator": "kvxray", "cluster": "east", "pod": "vllm-0", "model_name": "m" * 199 + "…",
    }  # fmt: skip
    annotations = there["annotations"]
    assert annotations["summary"] == "engine-a: Blocks are held by requests that are over."
    assert annotations["description"].startswith("Request r-17 holds 12 blocks.\n1. ")
    assert annotations["runbook_url"] == "http://127.0.0.1:8501/alerts?rule=LeakNamed"
    assert there["generatorURL"] == "http://127.0.0.1:8501/?source=engine-a&at=3.104&mark=alert-1"
    assert there["startsAt"][:19] == alert.fired[:19]
    one.end(alert)
    until(lambda: LEAK not in alertmanager.alerts())
    told = until(lambda: all(one.told(alert).values()) and one.told(alert))
    assert set(told) == {"fired", "over"}
    target = one.delivery.targets()[0]
    assert (target.kind, target.state, target.waiting) == ("alertmanager", "ok", 0)


def test_what_fires_again_after_it_was_over_fires_there_again(alertmanager, sending):
    one = sending(alertmanagers=alertmanager.url)
    first = made_alert()
    one.fire(first)
    one.end(first)
    until(lambda: one.delivery.targets()[0].waiting == 0)
    assert LEAK not in alertmanager.alerts()
    one.fire(made_alert("alert-2"))
    until(lambda: LEAK in alertmanager.alerts())


def test_one_that_forgot_is_told_again_and_what_ended_meanwhile_is_told_when_it_is_back(
    alertmanager, make_alertmanager, sending, quick
):
    second = make_alertmanager()
    second.start()
    one = sending(alertmanagers=f"{alertmanager.url},{second.url}", told_again_s=0.3)
    lasting, short = made_alert(), made_alert("alert-2", engine="engine-b")
    one.fire(lasting, short)
    until(lambda: set(alertmanager.alerts()) == set(second.alerts()) == {LEAK, OTHER})
    until(lambda: all(target.waiting == 0 for target in one.delivery.targets()))
    alertmanager.kill()
    one.end(short)
    until(lambda: set(second.alerts()) == {LEAK})
    assert one.delivery.targets()[0].waiting == 1, "the one that is away is still to be told"
    alertmanager.start()
    until(lambda: set(alertmanager.alerts()) == {LEAK})
    until(lambda: all(target.waiting == 0 for target in one.delivery.targets()))


def test_after_a_restart_of_ours_only_what_fires_goes_on_there(alertmanager, sending, quick):
    one = sending(alertmanagers=alertmanager.url)
    alert = made_alert()
    one.fire(alert)
    until(lambda: LEAK in alertmanager.alerts())
    one.close()
    again = sending(alertmanagers=alertmanager.url, told_again_s=0.3)
    again.end(alert)
    until(lambda: LEAK not in alertmanager.alerts())


def test_a_silence_that_was_made_there_is_shown_here(alertmanager, sending):
    one = sending(alertmanagers=alertmanager.url, look_s=0.1)
    alert, other = made_alert(), made_alert("alert-2", engine="engine-b")
    one.fire(alert, other)
    silence = alertmanager.silence("known, fixed on Monday", engine="engine-a")
    quiet = until(lambda: one.delivery.quiet(alert))
    assert (quiet.by, quiet.note, quiet.mute_id) == ("Ada", "known, fixed on Monday", "")
    assert quiet.until.endswith("Z")
    assert quiet.link == f"{alertmanager.url}/#/silences/{silence}"
    assert one.delivery.quiet(other) is None
    request = urllib.request.Request(f"{alertmanager.url}/api/v2/silence/{silence}", method="DELETE")
    urllib.request.urlopen(request, timeout=30).close()
    until(lambda: one.delivery.quiet(alert) is None)


def test_an_alert_that_another_one_inhibits_is_shown_so(alertmanager, sending):
    one = sending(alertmanagers=alertmanager.url, look_s=0.1)
    alert = made_alert()
    one.fire(alert, made_alert("alert-2", rule="EngineDown"))
    quiet = until(lambda: one.delivery.quiet(alert))
    assert (quiet.by, quiet.note, quiet.until) == ("Alertmanager", "Inhibited by EngineDown.", None)


def test_what_was_said_last_stands_while_it_does_not_answer(alertmanager, sending):
    one = sending(alertmanagers=alertmanager.url, look_s=0.1)
    alert = made_alert()
    one.fire(alert)
    alertmanager.silence("known", engine="engine-a")
    until(lambda: one.delivery.quiet(alert))
    alertmanager.kill()
    quiet = until(lambda: (found := one.delivery.quiet(alert)) and "does not answer since" in found.note and found)
    assert quiet.by == "Ada"


def test_names_that_no_label_may_have_do_not_keep_an_alert_away(alertmanager, sending):
    odd = {"__name__": "x", "a b": "1", "a-b": "2", "": "3", "é": "4", "1st": "5", "nul": "\0", "lines": "a\nb"}
    one = sending(alertmanagers=alertmanager.url)
    one.fire(made_alert(rule="Own rule: \"x\"", engine="", labels=odd, moment=AlertMoment(
        source="", epoch=None, seq=None, time_ns=1_800_000_000_000_000_000)))  # fmt: skip
    there = until(lambda: alertmanager.alerts().get(('Own rule: "x"', None)))
    assert there["labels"]["a_b"] == "1"
    assert there["labels"]["lines"] == "a b"
    assert "source" not in there["labels"]
    assert there["generatorURL"].endswith("alerts?id=alert-1")


def test_after_the_clock_was_set_back_an_alert_still_arrives_and_resolves(alertmanager, sending, quick):
    ahead_ns = time.time_ns() + 3600 * SECOND_NS
    one = sending(alertmanagers=alertmanager.url)
    alert = made_alert(fired_ns=ahead_ns, began_ns=ahead_ns)
    one.fire(alert)
    until(lambda: LEAK in alertmanager.alerts())
    one.end(alert)
    until(lambda: one.delivery.targets()[0].waiting == 0)
    assert one.delivery.counts() == {one.delivery.targets()[0].name: (2, 0)}
    assert LEAK not in alertmanager.alerts()


def test_one_alert_that_is_refused_keeps_none_of_the_others_from_being_told_again(receiver, sending, quick):
    """As Alertmanager does it: one that it cannot take, and it answers 400."""
    receiver.refuses = lambda came: came.path.endswith("/alerts") and b"engine-bad" in came.body
    one = sending(alertmanagers=receiver.url, told_again_s=0.3)
    alerts = [made_alert(f"alert-{n}", engine=f"engine-{n}") for n in range(60)]
    one.fire(made_alert("bad", engine="engine-bad"), *alerts)
    until(lambda: one.delivery.targets()[0].waiting == 0)
    receiver.came.clear()
    wanted = {alert.engine for alert in alerts}
    until(lambda: wanted <= {one["labels"]["engine"] for came in list(receiver.came) if not receiver.refuses(came)
                             for one in (came.json if came.body else [])})  # fmt: skip
