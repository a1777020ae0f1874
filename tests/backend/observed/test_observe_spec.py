"""What describes an engine: what fits together, and one sentence, with its field, for what does not."""

from __future__ import annotations

import pytest
from kvxray_backend.observed.spec import BadSpec, ObserveSpec, read_spec

EVENTS = "tcp://h:5557"


def test_blanks_are_nothing_and_numbers_are_labels_too():
    spec = read_spec({"name": "a", "events": f" {EVENTS} ", "replay": "", "labels": {"dp_rank": 0, "share": 0.5}})
    assert (spec.events, spec.replay, spec.labels) == (EVENTS, None, {"dp_rank": "0", "share": "0.5"})
    assert read_spec(spec.model_dump()) == spec


@pytest.mark.parametrize(
    "fields",
    [
        {"events": EVENTS, "replay": "tcp://h:5558", "ranks": 8},
        {"events": "tcp://*:5557"},
        {"events": "tcp://10.0.0.1:5557", "bind": True},
        {"events": "tcp://[fd00::1]:5557"},
        {"events": "ipc:///tmp/events"},
        {"make": "trtllm", "events": "http://h:8000/kv_cache_events"},
        {"make": "dynamo", "events": "file:///var/log/events.jsonl"},
        {"metrics": "https://h/metrics", "token_file": "/run/token", "role": "decode"},
        {"prometheus": "http://p:9090", "match": {"pod": "a"}},
    ],
)
def test_what_engines_are_like_is_taken(fields):
    assert ObserveSpec(name="a", **fields)


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({}, "events", "say where its events are"),
        ({"role": "decode"}, "events", "say where its events are"),
        ({"metrics": "http://h/", "prometheus": "http://p", "match": {"a": "b"}}, "prometheus", "give one of the two"),
        ({"prometheus": "http://p"}, "match", "which engine of that Prometheus"),
        ({"metrics": "http://h/", "match": {"a": "b"}}, "match", "leave match out"),
        ({"metrics": "http://h/", "replay": "tcp://h:1"}, "replay", "there is none"),
        ({"metrics": "http://h/", "bind": True}, "bind", "there is none"),
        ({"metrics": "http://h/", "ranks": 2}, "ranks", "there is no socket"),
        ({"events": "ipc:///tmp/x", "ranks": 2}, "events", "has no port"),
        ({"events": EVENTS, "replay": "tcp://h:65535", "ranks": 2}, "replay", "no port from 1 to 65535"),
        ({"events": EVENTS, "ranks": 1025}, "ranks", "less than or equal to 1024"),
        ({"events": "inproc://x"}, "events", "within its own process"),
        ({"events": "http://h/kv"}, "events", "Only TensorRT-LLM"),
        ({"events": "file:///x"}, "events", "Only Dynamo"),
        ({"make": "dynamo", "events": "file://x"}, "events", "whole path"),
        ({"make": "dynamo", "events": "file:///x\n"}, None, ""),
        ({"events": EVENTS, "replay": "tcp://*:5558"}, "replay", "dialled"),
        ({"metrics": "ftp://h/"}, "metrics", "no address such as"),
        ({"metrics": "http://u:p@h/"}, "metrics", "must not carry a password"),
        ({"metrics": "http://h:0/"}, "metrics", "port"),
        ({"metrics": "http://h/", "token_file": "a", "token_env": "B"}, "token_env", "one of the two"),
        ({"metrics": "http://h/", "labels": {str(n): "x" for n in range(2)}}, "labels", "no name of a label"),
        ({"metrics": "http://h/", "labels": {f"l{n}": "x" for n in range(65)}}, "labels", "64 are kept at most"),
        ({"metrics": "http://h/", "labels": {"a": "x" * 513}}, "labels", "512 plain characters"),
        ({"metrics": "http://h/", "labels": {"a": "x\ny"}}, "labels", "512 plain characters"),
        ({"metrics": "http://h/", "every_s": 0}, "every_s", "greater than or equal to 1"),
        ({"metrics": "http://h/", "every_s": float("nan")}, "every_s", ""),
        ({"metrics": "http://h/", "num_blocks": 0}, "num_blocks", "greater than 0"),
        ({"metrics": "http://h/", "make": "ollama"}, "make", "'vllm'"),
        ({"events": EVENTS, "topic": "x" * 513}, "topic", "512"),
        ({"events": "tcp://" + "h" * 3000 + ":1"}, "events", "2,048 characters"),
        ({"events": "tcp://" + "h." * 130 + ":1"}, "events", "no name of a host"),
        ({"events": "tcp://a..b:1"}, "events", "'a..b' is no name of a host"),
        ({"events": "tcp://\ud800:1"}, "events", "no name of a host"),
        ({"events": EVENTS, "replay": "tcp://\udcff:1"}, "replay", "no name of a host"),
        ({"metrics": "http://a..b:1/"}, "metrics", "no name of a host"),
        ({"metrics": "http://" + "h" * 64 + "/"}, "metrics", "no name of a host"),
        ({"metrics": "http://h/\ud800"}, "metrics", "no address"),
        ({"events": "ipc:///tmp/\ud800"}, "events", "plain characters"),
        ({"events": "ipc:///" + "x" * 107}, "events", "107 bytes"),
        ({"events": EVENTS, "topic": "\ud800"}, "topic", "valid string"),
        ({"events": EVENTS, "num_blocks": True}, "num_blocks", "not yes or no"),
        ({"events": EVENTS, "ranks": True}, "ranks", "not yes or no"),
    ],
)
def test_what_cannot_be_is_one_sentence_and_names_its_field(fields, field, words):
    if field is None:
        assert read_spec({"name": "a", **fields}).events == fields["events"].strip()
        return
    with pytest.raises(BadSpec) as refusal:
        read_spec({"name": "a", **fields})
    assert refusal.value.field == field
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 500


@pytest.mark.parametrize("name", ["", "a/b", "-a", "a b", "é", "x" * 64, None, 3])
def test_names_are_as_those_of_sources(name):
    with pytest.raises(BadSpec) as refusal:
        read_spec({"name": name, "events": EVENTS})
    assert refusal.value.field == "name"
