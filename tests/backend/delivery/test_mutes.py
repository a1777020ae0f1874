"""Mutes: nobody is told of what is muted, until its end; what was begun is told to its end."""

from __future__ import annotations

import pytest
from kvxray_backend.delivery import lane

from tests.backend.delivery.sent_alerts import hook, made_alert
from tests.backend.served import backend_of, serving, until

HOUR_NS = 3600 * 10**9


def muted(one, **what):
    until_ns = what.pop("until_ns", one.delivery.muting._clock.wall_ns() + HOUR_NS)
    return one.delivery.muting.add(what.get("rule", ""), what.get("engine", ""), until_ns, what.get("note", ""))


def test_what_is_muted_is_told_when_the_mute_is_ended_and_it_still_fires(quick, receiver, sending):
    one = sending(hook(receiver))
    mute = muted(one, engine="engine-a", note="known")
    alert, other = made_alert(), made_alert("alert-2", engine="engine-b")
    one.fire(alert, other)
    until(lambda: receiver.told == ["alert-2:fired:pager"])
    quiet = one.delivery.quiet(alert)
    assert (quiet.by, quiet.note, quiet.mute_id, quiet.link) == ("A mute", "known", mute.id, "")
    assert one.delivery.quiet(other) is None
    assert [view.id for view in one.delivery.mutes()] == [mute.id]
    assert one.delivery.muting.end(mute.id)
    until(lambda: len(receiver.told) == 2)
    assert receiver.told[1] == "alert-1:fired:pager"
    assert one.delivery.quiet(alert) is None


def test_a_mute_ends_by_itself(quick, receiver, sending):
    one = sending(hook(receiver))
    muted(one, rule="LeakNamed", until_ns=one.delivery.muting._clock.wall_ns() + HOUR_NS // 3600)
    one.fire(made_alert())
    until(lambda: receiver.told == ["alert-1:fired:pager"])
    assert one.delivery.mutes() == []


def test_what_was_over_while_muted_is_told_by_nobody(quick, receiver, sending):
    one = sending(hook(receiver))
    muted(one, engine="engine-a")
    alert = made_alert()
    one.fire(alert)
    one.end(alert)
    told = until(lambda: one.delivery.targets()[0].waiting == 0 and one.told(alert))
    assert told == {"fired": "Muted until it was over.", "over": "Muted until it was over."}
    assert receiver.came == []


def test_what_was_told_before_the_mute_is_told_when_it_is_over(quick, receiver, sending):
    one = sending(hook(receiver))
    alert = made_alert()
    one.fire(alert)
    until(lambda: one.delivery.targets()[0].waiting == 0)
    muted(one, engine="engine-a")
    one.end(alert)
    until(lambda: receiver.told == ["alert-1:fired:pager", "alert-1:over:pager"])


def test_mutes_and_what_they_hold_outlive_a_restart(quick, receiver, sending, monkeypatch):
    one = sending(hook(receiver))
    mute = muted(one, rule="LeakNamed")
    one.fire(made_alert())
    until(lambda: one.delivery.told_of("alert-1"))
    one.log.flush(10)
    one.close()
    again = sending(hook(receiver))
    assert [view.id for view in again.delivery.mutes()] == [mute.id]
    assert receiver.came == []
    again.delivery.muting.end(mute.id)
    until(lambda: receiver.told == ["alert-1:fired:pager"])
    assert lane.GROUP_WAIT_NS == 0


@pytest.fixture(scope="module")
def http(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("mutes")) as http:
        yield http


def test_a_mute_is_made_listed_and_ended_over_the_api(http):
    made = http.post("/api/mutes", json={"rule": "LeakNamed", "engine": "a", "for": "2h", "note": "known"})
    assert made.status_code == 201
    assert (made.json()["rule"], made.json()["engine"], made.json()["note"]) == ("LeakNamed", "a", "known")
    listed = http.get("/api/alerts").json()
    assert listed["mutes"] == [made.json()]
    assert listed["can_mute"] is True
    assert http.delete(f"/api/mutes/{made.json()['id']}").status_code == 204
    assert http.delete(f"/api/mutes/{made.json()['id']}").status_code == 404
    assert http.get("/api/alerts").json()["mutes"] == []


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"for": "2h"}, 400, "rule"),
        ({"rule": "LeakNamed"}, 400, "for"),
        ({"rule": "LeakNamed", "for": "2h", "until": "2099-01-01"}, 400, "for"),
        ({"rule": "LeakNamed", "for": "none"}, 400, "for"),
        ({"rule": "LeakNamed", "for": "soon"}, 400, "for"),
        ({"rule": "LeakNamed", "for": "99w"}, 400, "for"),
        ({"rule": "LeakNamed", "until": "2020-01-01T00:00:00Z"}, 400, "until"),
        ({"rule": "LeakNamed", "until": "live"}, 400, "until"),
        ({"rule": "LeakNamed", "until": "3.104"}, 400, "until"),
        ({"rule": "x" * 201, "for": "2h"}, 422, None),
        ({"rule": "LeakNamed", "for": "2h", "whose": "mine"}, 422, None),
    ],
)
def test_what_is_no_mute_is_refused_in_one_sentence(http, body, status, field):
    answer = http.post("/api/mutes", json=body)
    assert answer.status_code == status
    assert answer.json().get("field") == field
    assert answer.json()["error"].endswith(".")
    assert backend_of(http).delivery.mutes() == []


def test_where_an_alertmanager_is_set_silences_are_its_own(tmp_path):
    with serving(tmp_path, alertmanagers="http://127.0.0.1:9") as http:
        answer = http.post("/api/mutes", json={"rule": "LeakNamed", "for": "2h"})
        assert answer.status_code == 409
        assert answer.json() == {
            "error": "An Alertmanager is set, so that silences are kept there: make one on its page."
        }
        listed = http.get("/api/alerts").json()
        assert listed["can_mute"] is False
        assert listed["targets"][0]["name"] == "Alertmanager 127.0.0.1:9"
