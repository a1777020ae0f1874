"""A webhook is told what is due, in order, once, however it answers; and nobody waits for one that hangs."""

from __future__ import annotations

import hashlib
import hmac
import logging
import re

import pytest
from kvxray_backend.delivery import lane
from kvxray_backend.delivery.outcome import Failed, Refused, outcome_of, wait_of
from kvxray_backend.delivery.target import Target
from kvxray_backend.settings import load_settings
from kvxray_engine.errors import UserError

from tests.backend.delivery.receiver import Receiver, Reply
from tests.backend.delivery.sent_alerts import hook, made_alert
from tests.backend.served import until

SECRET = "s3cret-key-of-the-hook"


def of(name, *kinds):
    return [f"{name}:{kind}:pager" for kind in kinds]


def test_fired_and_over_come_in_order_and_are_told_as_delivered(quick, receiver, sending):
    one = sending(hook(receiver))
    alert = made_alert()
    assert one.delivery.targets()[0].state == "unused"
    one.fire(alert)
    until(lambda: len(receiver.told) == 1)
    one.end(alert)
    until(lambda: len(receiver.told) == 2)

    assert receiver.told == of("alert-1", "fired", "over")
    first, second = (came.json["notifications"][0] for came in receiver.came)
    assert (first["kind"], first["alert"]["state"], first["alert"]["ended"]) == ("fired", "firing", None)
    assert (second["kind"], second["alert"]["state"]) == ("over", "over")
    assert first["link"] == "http://127.0.0.1:8501/?source=engine-a&at=3.104&mark=alert-1"
    assert first["runbook"] == "http://127.0.0.1:8501/alerts?rule=LeakNamed"
    assert "1. " in first["description"], "what to do is told"
    told = until(lambda: all(view.delivered for view in one.delivery.told_of("alert-1")) and one.told(alert))
    assert set(told) == {"fired", "over"}
    assert one.delivery.targets()[0].state == "ok"
    assert one.delivery.counts() == {"pager": (2, 0)}


def test_what_is_due_together_goes_in_one_post(receiver, sending, monkeypatch):
    monkeypatch.setattr(lane, "GROUP_WAIT_NS", 300_000_000)
    one = sending(hook(receiver))
    one.fire(*(made_alert(f"alert-{n}", engine=f"engine-{n}") for n in range(5)))
    until(lambda: len(receiver.told) == 5)
    assert len(receiver.came) == 1


def test_a_post_is_signed_over_its_time_and_body_and_keeps_its_id_over_tries(quick, receiver, sending):
    receiver.replies = [Reply(500), Reply(503)]
    one = sending(hook(receiver, secret=SECRET))
    one.fire(made_alert())
    until(lambda: len(receiver.came) == 3)
    assert len({came.headers["x-kvxray-delivery"] for came in receiver.came}) == 1
    assert len({came.body for came in receiver.came}) == 1
    for came in receiver.came:
        time_s, sum_ = (part.partition("=")[2] for part in came.headers["x-kvxray-signature"].split(","))
        signed = f"{time_s}.".encode() + came.body
        assert hmac.compare_digest(hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest(), sum_)


def test_what_came_while_nothing_answered_goes_together_in_order(quick, receiver, sending):
    url = hook(receiver)
    receiver.stop()
    one = sending(url)
    alert, other = made_alert(), made_alert("alert-2", engine="engine-b")
    one.fire(alert)
    until(lambda: one.delivery.targets()[0].error)
    one.fire(other)
    one.end(alert)
    assert "nothing answers" in one.delivery.targets()[0].error.lower()
    assert one.delivery.targets()[0].state == "failing"
    until(lambda: all(view.attempts for view in one.delivery.told_of("alert-1") + one.delivery.told_of("alert-2")))
    receiver.start()
    until(lambda: len(receiver.told) == 3)
    assert len(receiver.came) == 1
    assert receiver.told == [*of("alert-1", "fired"), *of("alert-2", "fired"), *of("alert-1", "over")]
    kinds = [(one["kind"], one["alert"]["state"]) for one in receiver.came[0].json["notifications"]]
    assert kinds == [("fired", "firing"), ("fired", "firing"), ("over", "over")]


def test_what_may_have_arrived_is_repeated_as_it_was(quick, receiver, sending):
    receiver.replies = [Reply(500)] * 3
    one = sending(hook(receiver))
    alert = made_alert()
    one.fire(alert)
    until(lambda: receiver.came)
    one.end(alert)
    until(lambda: len(receiver.told) >= 5)
    assert receiver.told == [*of("alert-1", *["fired"] * 4), *of("alert-1", "over")]


def test_a_receiver_that_hangs_holds_up_nobody_else(quick, receiver, sending):
    hanging = Receiver()
    hanging.always = Reply(hang=True)
    hanging.start()
    try:
        one = sending(hook(hanging, "stuck"), hook(receiver), timeout_s=60.0)
        one.fire(made_alert())
        until(lambda: hanging.came and receiver.came)
        one.fire(made_alert("alert-2", engine="engine-b"))
        until(lambda: len(receiver.told) == 2)
        assert len(hanging.came) == 1
    finally:
        hanging.stop()


def test_one_that_does_not_answer_in_time_is_tried_again(quick, receiver, sending):
    receiver.replies = [Reply(hang=True)]
    one = sending(hook(receiver), timeout_s=0.2)
    one.fire(made_alert())
    until(lambda: len(receiver.came) == 2)
    assert receiver.told == of("alert-1", "fired", "fired")


@pytest.mark.parametrize("reply", [Reply(drip=True), Reply(body=b"x" * (4 << 20))], ids=["dripping", "huge"])
def test_of_an_acceptance_nothing_but_the_status_is_read(quick, receiver, sending, reply):
    receiver.always = reply
    one = sending(hook(receiver))
    alert = made_alert()
    one.fire(alert)
    until(lambda: one.delivery.targets()[0].last_delivered)
    assert one.delivery.targets()[0].state == "ok"
    assert len(receiver.came) == 1


@pytest.mark.parametrize("reply", [Reply(500, drip=True), Reply(500, body=b"x" * (4 << 20))], ids=["dripping", "huge"])
def test_of_a_refusal_little_is_read_and_not_for_long(quick, receiver, sending, reply):
    receiver.replies = [reply]
    one = sending(hook(receiver), timeout_s=1.0)
    one.fire(made_alert())
    until(lambda: len(receiver.came) == 2)
    until(lambda: one.delivery.targets()[0].state == "ok")


def test_a_redirect_is_not_followed(quick, receiver, sending, monkeypatch):
    monkeypatch.setattr(lane, "TRIES_AT_WRONG_PLACE", 3)
    elsewhere = Receiver()
    elsewhere.start()
    try:
        receiver.always = Reply(307, (("location", f"{elsewhere.url}/other"),))
        one = sending(hook(receiver))
        alert = made_alert()
        one.fire(alert)
        told = until(lambda: one.delivery.targets()[0].waiting == 0 and one.told(alert))
        assert not elsewhere.came
        assert len(receiver.came) == lane.TRIES_AT_WRONG_PLACE
        assert "redirects (307)" in told["fired"]
        assert told["fired"].startswith("Given up after 3 tries.")
    finally:
        elsewhere.stop()


def test_what_a_receiver_cannot_read_is_given_up_and_told_with_its_words(quick, receiver, sending):
    receiver.replies = [Reply(400, (("content-type", "text/plain"),), b"invalid_payload")]
    one = sending(hook(receiver))
    alert, other = made_alert(), made_alert("alert-2", engine="engine-b")
    one.fire(alert)
    told = until(lambda: one.delivery.targets()[0].waiting == 0 and one.told(alert))
    assert told == {"fired": "It refuses what was sent (400) and says: invalid_payload."}
    one.fire(other)
    until(lambda: len(receiver.told) == 2)
    until(lambda: one.delivery.targets()[0].state == "ok")


def test_one_that_spoils_a_post_for_others_is_given_up_alone(receiver, sending, monkeypatch):
    monkeypatch.setattr(lane, "GROUP_WAIT_NS", 200_000_000)
    receiver.replies = [Reply(413), Reply(413), Reply(200), Reply(413), Reply(200)]
    one = sending(hook(receiver))
    alerts = [made_alert(f"alert-{n}", engine=f"engine-{n}") for n in range(3)]
    one.fire(*alerts)
    until(lambda: len(receiver.came) == 5 and one.delivery.targets()[0].waiting == 0)
    assert [len(came.json["notifications"]) for came in receiver.came] == [3, 2, 1, 1, 1]
    until(lambda: all(view.delivered for name in ("alert-0", "alert-2") for view in one.delivery.told_of(name)))
    assert "413" in one.told(alerts[1])["fired"]


def test_only_alerts_grave_enough_are_told(quick, receiver, sending):
    one = sending(hook(receiver, least="critical"))
    one.fire(made_alert(), made_alert("alert-2", severity="critical", engine="engine-b"))
    until(lambda: receiver.came)
    assert receiver.told == of("alert-2", "fired")
    assert one.delivery.told_of("alert-1") == []


def test_secrets_are_shown_to_nobody(quick, receiver, sending, caplog):
    caplog.set_level(logging.DEBUG)
    receiver.replies = [
        Reply(400, (("content-type", "text/plain"),), b"no hook zzTOPzz here"),
        Reply(404, (("content-type", "text/plain"),), SECRET.encode()),
    ]
    address = receiver.url.replace("//", "//user:pass-of-user@") + "/services/zzTOPzz?key=query-secret"
    one = sending({"name": "pager", "url": address, "secret": SECRET})
    one.fire(made_alert())
    until(lambda: one.delivery.targets()[0].waiting == 0)
    one.fire(made_alert("alert-2", engine="engine-b"))
    until(lambda: one.delivery.targets()[0].waiting == 0 and len(receiver.came) == 3)
    assert one.delivery.targets()[0].address == f"{receiver.url}/…"
    shown = f"{caplog.text} {one.delivery.targets()} {one.delivery.told(['alert-1', 'alert-2'])} {one.settings!r}"
    shown += repr(one.delivery._targets)
    # The settings hold the address as it was given; everything that is shown or logged does not.
    shown = shown.replace(repr(one.settings), "")
    assert "was not told" in caplog.text
    for secret in ("zzTOPzz", SECRET, "pass-of-user", "query-secret"):
        assert secret not in shown


def test_what_is_stored_while_the_database_refuses_goes_out_all_the_same(quick, receiver, sending):
    one = sending(hook(receiver))
    one.log.close()
    one.fire(made_alert())
    until(lambda: receiver.came)
    assert receiver.told == of("alert-1", "fired")


@pytest.mark.parametrize(
    ("status", "kind"), [(400, Refused), (413, Refused), (422, Refused), (429, Failed), (408, Failed), (503, Failed)]
)
def test_answers_that_mean_never_and_answers_that_mean_later(status, kind):
    assert isinstance(outcome_of(status), kind)


def test_a_server_says_how_long_it_wants_to_be_left_alone():
    assert outcome_of(429, retry_after="7") == Failed("It answers with 429.", retry_after_s=7.0)
    assert wait_of("99999999") == 3600
    assert wait_of("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert [wait_of(odd) for odd in ("", "-3", "soon", "٣", "9" * 400)] == [0, 0, 0, 0, 3600]


def test_nobody_is_asked_again_before_that(quick, receiver, sending):
    receiver.replies = [Reply(429, (("retry-after", "3000"),))]
    one = sending(hook(receiver))
    one.fire(made_alert())
    until(lambda: one.delivery.targets()[0].next_try)
    one.fire(made_alert("alert-2", engine="engine-b"))
    until(lambda: one.delivery.targets()[0].waiting == 2)
    assert len(receiver.came) == 1


@pytest.mark.parametrize(
    "secret", ["usersecret", "passsecret", "pass secret", "pathsecret", "querysecret", "key secret"]
)
def test_an_answer_that_has_anything_of_the_address_is_not_shown(secret):
    url = "http://usersecret:passsecret@hook/pass%20secret/pathsecret?a=querysecret&b=key+secret"
    target = Target("pager", "webhook", url)
    assert target.gives_away(f"No such {secret.upper()} here")
    assert not target.gives_away("invalid payload")


@pytest.mark.parametrize(
    "url", ["ftp://ada:word@hook/secret", "http://ada:word@hook:99999/secret", "http://ada:word@[::1/secret?secret"]
)
def test_what_is_wrong_with_an_address_is_said_without_its_secrets(url):
    for settings in ({"webhooks": [{"name": "pager", "url": url}]}, {"alertmanagers": url}):
        with pytest.raises(UserError) as raised:
            load_settings(**settings)
        assert not {"ada", "word", "secret"} & set(re.findall("[a-z]+", str(raised.value)))
    sound = load_settings(webhooks=[{"name": "pager", "url": "http://h/secret"}], alertmanagers="http://ada:word@h")
    assert "secret'" not in repr(sound)
    assert "word" not in repr(sound)
