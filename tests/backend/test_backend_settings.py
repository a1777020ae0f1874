"""Settings: defaults that are safe, and one sentence for each mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kvxray_backend.loopback import is_loopback
from kvxray_backend.observed.spec import ObserveSpec
from kvxray_backend.observed.target_list import TargetList
from kvxray_backend.settings import Settings, SourceSpec, load_settings
from kvxray_engine.errors import UserError


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"KVXRAY_{name.upper()}", raising=False)


def test_without_any_setting_only_this_machine_is_served() -> None:
    settings = load_settings()
    assert (settings.host, settings.port, settings.has_token) == ("127.0.0.1", 8501, False)
    assert settings.database == f"sqlite:///{Path.home()}/.local/share/kvxray/kvxray.db"
    assert settings.url == "http://127.0.0.1:8501"


def test_the_environment_is_read_and_arguments_win(monkeypatch: pytest.MonkeyPatch) -> None:
    source = {"name": "one", "events": "tcp://127.0.0.1:5570", "replay": "ipc:///tmp/replay"}
    monkeypatch.setenv("KVXRAY_PORT", "9000")
    monkeypatch.setenv("KVXRAY_SOURCES", json.dumps([source]))
    monkeypatch.setenv("KVXRAY_ALLOWED_HOSTS", "Box.Example., other ,")
    monkeypatch.setenv("KVXRAY_BASE_PATH", "a/b/")
    settings = load_settings(port=9001)
    assert settings.port == 9001
    assert settings.sources == (SourceSpec(**source),)
    assert settings.allowed_hosts == ("box.example", "other")
    assert settings.base_path == "/a/b"
    assert settings.url == "http://127.0.0.1:9001/a/b"


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::", "192.168.0.7", "box.example"])
def test_beyond_this_machine_a_token_is_required(host: str) -> None:
    with pytest.raises(UserError, match=r"^Set KVXRAY_TOKEN to a secret of your own before listening on .*\.$"):
        load_settings(host=host)
    assert load_settings(host=host, token="secret").has_token


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "localhost", "LOCALHOST.", "::1"])
def test_loopback_needs_none(host: str) -> None:
    assert is_loopback(host)
    load_settings(host=host)


@pytest.mark.parametrize(
    ("mistake", "sentence"),
    [
        ({"port": 70_000}, "Mend KVXRAY_PORT: input should be less than or equal to 65535."),
        (
            {"token": "sésame"},
            "Mend KVXRAY_TOKEN: a token is made of plain ASCII characters, without spaces at its ends.",
        ),
        ({"base_path": "a b"}, "Mend KVXRAY_BASE_PATH: 'a b' is not a path such as /kvxray."),
        ({"base_path": "/../x"}, "Mend KVXRAY_BASE_PATH: '/../x' is not a path such as /kvxray."),
        ({"base_path": "/x/."}, "Mend KVXRAY_BASE_PATH: '/x/.' is not a path such as /kvxray."),
        (
            {"data_dir": "~no-such-user/x"},
            "Mend KVXRAY_DATA_DIR: '~no-such-user/x' names a home folder that is not there.",
        ),
        (
            {"sources": [{"name": "a", "events": "tcp://h:0", "replay": "tcp://h:2"}]},
            "Mend KVXRAY_SOURCES.0.EVENTS: the port of 'tcp://h:0' is not one from 1 to 65535.",
        ),
        (
            {"sources": [{"name": "a", "events": "tcp://h:1", "replay": "tcp://h:65536"}]},
            "Mend KVXRAY_SOURCES.0.REPLAY: the port of 'tcp://h:65536' is not one from 1 to 65535.",
        ),
        (
            {"sources": [{"name": "a", "events": "tcp://h:1", "replay": "tcp://h:2", "api": "http://h:70000"}]},
            "Mend KVXRAY_SOURCES.0.API: 'http://h:70000' does not name a server and a port from 1 to 65535.",
        ),
        (
            {"sources": [{"name": "a b", "events": "tcp://h:1", "replay": "tcp://h:2"}]},
            "Mend KVXRAY_SOURCES.0.NAME: a source's name is up to 63 letters, digits, dots, dashes and underscores.",
        ),
        (
            {"sources": [{"name": "a", "events": "h:1", "replay": "tcp://h:2"}]},
            "Mend KVXRAY_SOURCES.0.EVENTS: 'h:1' is not an endpoint such as tcp://127.0.0.1:5570 or ipc:///tmp/events.",
        ),
        (
            {"sources": [{"name": "a", "events": "tcp://h:1", "replay": "tcp://h:2", "api": "ftp://h"}]},
            "Mend KVXRAY_SOURCES.0.API: 'ftp://h' is not a URL such as http://127.0.0.1:8000.",
        ),
        (
            {"sources": [{"name": "a", "events": "tcp://h:1", "replay": "tcp://h:2"}] * 2},
            "Give every entry of KVXRAY_SOURCES a name of its own.",
        ),
    ],
)
def test_a_mistake_is_answered_with_one_sentence(mistake: dict, sentence: str) -> None:
    with pytest.raises(UserError) as told:
        load_settings(**mistake)
    assert str(told.value) == sentence


def test_sources_that_are_no_json_are_answered_with_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVXRAY_SOURCES", "one=tcp://h:1")
    with pytest.raises(UserError, match=r"^Write KVXRAY_SOURCES as a JSON list of \{name, events, replay, api\}\.$"):
        load_settings()


def test_every_setting_is_described() -> None:
    for name, field in [*Settings.model_fields.items(), *SourceSpec.model_fields.items()]:
        assert field.description, f"{name} has no description"


def test_the_token_does_not_show_when_settings_are_printed() -> None:
    assert "secret" not in repr(load_settings(token="secret"))


def test_engines_of_others_and_files_of_them_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVXRAY_ENGINES", '[{"name": "a", "events": "tcp://h:5557"}, {"file_sd": "t.json"}]')
    monkeypatch.setenv("KVXRAY_OBSERVE", "one.yaml, two.json,")
    settings = load_settings()
    assert settings.observe == (Path("one.yaml"), Path("two.json"))
    assert settings.engines == (ObserveSpec(name="a", events="tcp://h:5557"), TargetList(file_sd="t.json"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "Write KVXRAY_ENGINES as a JSON list of engines, as in docs/attach.md."),
        ("{}", "Mend KVXRAY_ENGINES: input should be a valid tuple."),
        (
            '[{"name": "a"}]',
            "Mend KVXRAY_ENGINES: Nothing of a could be seen: say where its events are, or its metrics, or both.",
        ),
        ('[{"events": "tcp://h:1"}]', "Mend KVXRAY_ENGINES: Mend name: it is missing."),
        (
            '[{"name": "a", "events": "tcp://h:1"}, {"name": "a", "events": "tcp://h:2"}]',
            "Give every engine a name of its own, among those of KVXRAY_SOURCES too.",
        ),
    ],
)
def test_a_bad_list_of_engines_is_one_sentence(monkeypatch: pytest.MonkeyPatch, text: str, sentence: str) -> None:
    monkeypatch.setenv("KVXRAY_ENGINES", text)
    with pytest.raises(UserError) as refusal:
        load_settings()
    assert str(refusal.value) == sentence
