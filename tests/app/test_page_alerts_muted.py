"""Alerts that nobody is told of for a while, in a real browser: muted here, or silenced in Alertmanager."""

from __future__ import annotations

import pytest

from tests.app.alerts_answers import LOOKED, alert, mute, target, view
from tests.app.alerts_page import Alerts

pytestmark = pytest.mark.browser


def test_a_silence_leads_to_where_it_is_and_only_to_a_web_page(alerts: Alerts) -> None:
    quiet = {"by": "ann", "until": LOOKED, "note": "upgrade", "link": "https://am.example/#/silences/1", "mute_id": ""}
    evil = quiet | {"link": "javascript:alert(1)"}
    there = target("Alertmanager", kind="alertmanager", address="https://am.example")
    alerts.fire(view(alert("a"), quiet=quiet), view(alert("b"), quiet=evil), view(), can_mute=False, targets=[there])
    alerts.open()
    said = alerts.text("[data-alert=a] .quiet")
    assert said.startswith("Silenced by ann until ")
    assert ": upgrade" in said
    assert alerts.href("[data-alert=a] .quiet a") == "https://am.example/#/silences/1"
    assert alerts.href("[data-alert=b] .quiet a") == ""
    assert alerts.names(".list .alert .badge") == ["quiet", "quiet", "firing"]
    assert not alerts.shows("[data-alert=a1] .actions button:last-of-type"), "Alertmanager's silences are made there"
    silence = "https://am.example/#/silences/new?filter=%7Balertname%3D%22LeakNamed%22%2Cengine%3D%22demo%22%7D"
    assert alerts.href("[data-alert=a1] .actions a:last-child") == silence
    assert not alerts.shows("[data-alert=a] .actions a:last-child")


def test_an_alert_is_muted_for_a_time_with_a_note_and_the_mute_is_ended(alerts: Alerts) -> None:
    alerts.fire(view())
    alerts.open()
    alerts.press(".alert .actions button:last-of-type")
    assert alerts.text("dialog h2") == "Mute LeakNamed"
    alerts.press("dialog input[value='8h']")
    alerts.page.evaluate("inside('alerts', '#mute-note').value = ' fix is on its way '")
    alerts.press("dialog .main-button")
    alerts.page.wait_for_function("inside('alerts', 'dialog .problem').innerText === 'There is no such thing.'")
    alerts.backend.answers["mutes"] = mute()
    alerts.backend.answers["mutes/m1"] = {}
    quiet = {"by": "", "until": LOOKED, "note": "fix is on its way", "link": "", "mute_id": "m1"}
    alerts.fire(view(quiet=quiet), mutes=[mute()])
    alerts.press("dialog .main-button")
    alerts.page.wait_for_function("!inside('alerts', 'dialog').open")
    body = {"rule": "LeakNamed", "engine": "demo", "for": "8h", "note": "fix is on its way"}
    assert alerts.backend.sent[-1] == ("POST", "mutes", body)
    alerts.has(".alert .quiet", "Muted until ")
    assert alerts.text(".muted-list b") == "LeakNamed on demo"
    alerts.press(".alert .quiet button")
    alerts.fire(view())
    alerts.page.wait_for_function("!inside('alerts', '.alert .quiet').checkVisibility()")
    assert alerts.backend.sent[-1] == ("DELETE", "mutes/m1", None)


def test_a_rule_is_muted_everywhere(alerts: Alerts) -> None:
    alerts.backend.answers["mutes"] = mute(engine="")
    alerts.fire(view())
    alerts.open()
    alerts.press(".alert .actions button:last-of-type")
    alerts.press("dialog input[value=rule]")
    alerts.press("dialog .main-button")
    alerts.page.wait_for_function("!inside('alerts', 'dialog').open")
    assert alerts.backend.sent[-1] == ("POST", "mutes", {"rule": "LeakNamed", "engine": "", "for": "2h", "note": ""})
