"""What a webhook is sent: whatever a value is, the body stays JSON; what a template does wrong is said at the start."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kvxray_backend.delivery import own_template
from kvxray_backend.delivery.message import Message
from kvxray_backend.delivery.own_template import BadTemplate, OwnTemplate
from kvxray_backend.delivery.sample import SAMPLES
from kvxray_backend.delivery.senders import whole_body
from kvxray_backend.delivery.signature import signature
from kvxray_backend.delivery.slack_template import MAX_BLOCKS, escaped, slack_body
from kvxray_engine.errors import UserError

from tests.backend.delivery.alertmanager_server import free_port
from tests.backend.delivery.sent_alerts import hook, made_alert
from tests.backend.served import until

DOC = (Path(__file__).parents[3] / "docs" / "delivery.md").read_text()
FIRED = SAMPLES[0]
ODD_PLACES = OwnTemplate('{"a": "{{ one }}", "b": {{ other | tojson }}, "{{ one }}x": ["- {{ one }} {{ other }} -"]}')


def changed(**changes) -> Message:
    alert = FIRED.alert.model_copy(update=changes)
    return Message("id", "fired", alert, f"{alert.engine}: {alert.sentence}", alert.culprit, "http://a/1", "http://a/2")


@settings(max_examples=50, deadline=None)
@given(st.text(), st.text())
def test_no_value_ends_the_text_that_it_stands_in(one, other):
    made = json.loads(ODD_PLACES.body({"one": one, "other": other}))
    assert made["a"] == one
    assert made["b"] == other
    assert made[f"{one}x"] == [f"- {one} {other} -"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{{ notifications", "unexpected end of template"),
        ('{"a": {{ notifications[0].summary }}}', "it does not give JSON"),
        ('{"a": "{{ nobody }}"}', "'nobody' is undefined"),
        ('{"a": "{{ notifications[0].alert.nothing }}"}', "has no attribute 'nothing'"),
        ('{"a": "{{ notifications }}"}', "tojson"),
        ('{"a": "{{ delivery.__class__.__mro__ }}"}', "unsafe"),
        ('{"a": "{{ delivery * 999999999 }}"}', "numbers"),
        ('{"a": "{{ "%999999999d" % 3 }}"}', "numbers"),
        ("[{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}1]", "further than 100000"),
        ("{% macro deep() %}{{ deep() }}{% endmacro %}{{ deep() }}", "recursion"),
        ("[{% for one in notifications %}{{ one.id | tojson }}{% endfor %}]", "it does not give JSON"),
        ('{"a": "{{ notifications[0].alert.findings[0].sentence }}"}', "has no element 0"),
        ("{% include '/etc/passwd' %}", "no loader"),
        ("{{ '{0:999999999}'.format(1) }}", "unsafe"),
        ("{{ [1] | slice(999999999) | list | tojson }}", "slice"),
    ],
)
def test_a_template_that_does_not_work_stops_the_start_with_one_sentence(text, why, tmp_path, receiver, sending):
    file = tmp_path / "hook.json"
    file.write_text(text)
    with pytest.raises(UserError, match=re.escape(why)) as raised:
        sending(hook(receiver, template=str(file)))
    assert str(file) in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("what", ["missing", "large", "no text", "a folder"])
def test_a_file_that_is_no_template_is_told_so(what, tmp_path, receiver, sending):
    file = tmp_path / "hook.json"
    if what == "large":
        file.write_text("1" * (65 << 10))
    if what == "no text":
        file.write_bytes(b"\xff\xfe\xfa")
    if what == "a folder":
        file.mkdir()
    with pytest.raises(UserError, match="hook.json"):
        sending(hook(receiver, template=str(file)))


def test_what_becomes_too_long_is_refused():
    template = OwnTemplate("[{% for i in range(9000) %}{{ text | tojson }},{% endfor %}1]")
    with pytest.raises(BadTemplate, match="more than 1 MiB"):
        template.body({"text": "x" * 1000})


@pytest.mark.parametrize(
    "text",
    [
        "{% macro twice(n) %}{% if n %}{{ twice(n - 1) }}{{ twice(n - 1) }}{% endif %}{% endmacro %}{{ twice(60) }}",
        "{% for one in notifications[0] %}" * 15 + "{% endfor %}" * 15 + "1",
    ],
)
def test_one_that_would_never_end_is_broken_off(text, monkeypatch):
    monkeypatch.setattr(own_template, "MAX_SECONDS", 0.2)
    before = sys.gettrace()
    with pytest.raises(BadTemplate, match="longer than"):
        OwnTemplate(text).body(whole_body(SAMPLES, "post-1"))
    assert sys.gettrace() is before


def test_the_template_of_the_docs_works(quick, tmp_path, receiver, sending):
    file = tmp_path / "hook.json"
    file.write_text(re.search(r"```\n(\{\"title\".*?)```", DOC, re.DOTALL)[1])
    one = sending(hook(receiver, template=str(file)))
    one.fire(made_alert())
    until(lambda: receiver.came)
    assert receiver.came[0].json["title"] == "engine-a: Blocks are held by requests that are over."
    assert receiver.came[0].json["lines"][0].startswith("Request r-17 holds 12 blocks.")


def python_of_the_docs(part):
    """The one program of the page that has this in it."""
    (found,) = [one for one in re.findall(r"```python\n(.*?)```", DOC, re.DOTALL) if part in one]
    return found


def test_the_receiver_in_the_docs_prints_what_it_is_sent():
    port = free_port()
    text = python_of_the_docs("class Receiver").replace("9000", str(port))
    receiver = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    try:
        until(lambda: is_taken(f"http://127.0.0.1:{port}/", b'{"a": 1}'))
        assert receiver.stdout.readline() == '{"a": 1}\n'
    finally:
        receiver.kill()
        receiver.communicate()


def is_taken(url, body):
    try:
        with urlopen(Request(url, body)) as answer:
            return answer.status == 204
    except URLError:
        return False


def test_the_check_of_a_signature_in_the_docs_works():
    told = {}
    exec(python_of_the_docs("def is_from_kvxray"), told)
    now_s, body = int(time.time()), b'{"a": 1}'
    header = signature("key", now_s, body)
    assert told["is_from_kvxray"]("key", header, body)
    assert not told["is_from_kvxray"]("other", header, body)
    assert not told["is_from_kvxray"]("key", header, body + b" ")
    assert not told["is_from_kvxray"]("key", header.replace(str(now_s), str(now_s - 1)), body)
    assert not told["is_from_kvxray"]("key", signature("key", now_s - 400, body), body), "an old one comes again"


def test_the_plain_body_names_what_the_docs_name():
    made = whole_body(SAMPLES, "post-1")
    shown = json.loads(re.search(r"```json\n(.*?)```", DOC, re.DOTALL)[1])
    assert set(shown) == set(made)
    assert set(shown["notifications"][0]) == set(made["notifications"][0])
    assert set(shown["notifications"][0]["alert"]) == set(made["notifications"][0]["alert"])
    json.dumps(made, allow_nan=False)


def test_what_is_no_number_of_json_is_null():
    number = FIRED.alert.numbers[0].model_copy(update={"value": float("inf")})
    made = whole_body([changed(numbers=(number,))], "post-1")
    assert made["notifications"][0]["alert"]["numbers"][0]["value"] is None


def test_slack_is_told_who_is_to_blame_and_where_to_look():
    made = slack_body(SAMPLES)
    first, second = (block["text"]["text"] for block in made["blocks"])
    assert "*LeakNamed* fires (critical)" in first
    assert "<http://page/1|The moment>" in first
    assert "*LeakNamed* is over" in second
    assert first in made["text"]


def test_nothing_from_an_engine_calls_everybody_or_makes_a_link():
    made = slack_body([changed(engine="<!channel> @here <http://evil|ok>", culprit="@all & <@U1>")])
    for text in (made["text"], made["blocks"][0]["text"]["text"]):
        assert "<!" not in text
        assert "@here" not in text
        assert "@all" not in text
        assert "<http://evil" not in text
    assert escaped("a & b < c") == "a &amp; b &lt; c"


def test_of_many_each_has_a_line_and_no_more_blocks_than_slack_takes():
    many = [changed(engine=f"engine-{n}", culprit="x" * 5000) for n in range(60)]
    made = slack_body(many)
    assert len(made["blocks"]) == MAX_BLOCKS
    assert made["blocks"][-1]["text"]["text"] == "And 11 more."
    assert all(len(block["text"]["text"]) <= 3000 for block in made["blocks"])
    assert all(f"engine-{n}:" in made["text"] for n in range(60))
    assert made["blocks"][0]["text"]["text"].endswith("|What to do>")
