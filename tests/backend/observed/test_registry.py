"""The engines that are watched, by name: names once, a limit, looked up by the source that is asked for."""

from __future__ import annotations

import pytest
from kvxray_backend.observed import registry
from kvxray_backend.observed.registry import NameTaken, ObservedEngines
from kvxray_backend.observed.spec import ObserveSpec
from kvxray_engine.clock import SystemClock
from kvxray_engine.errors import UserError

from tests.backend.observed.watching import stored_in


@pytest.fixture
def engines(tmp_path):
    with stored_in(tmp_path) as (database, log):
        made = ObservedEngines(database, log, SystemClock(), lambda name: name == "ours")
        yield made
        made.close()


def spec(name, **more):
    return ObserveSpec(name=name, **{"metrics": "http://127.0.0.1:1/metrics", **more})


def test_an_engine_is_found_by_its_name_and_by_its_ranks(engines):
    east = engines.attach(spec("east"), "settings")
    assert engines.rank("east") == (east, None)
    assert engines.rank("east/3") is None
    assert engines.rank("west") is None
    assert (engines.get("east"), engines.origin_of("east")) == (east, "settings")


@pytest.mark.parametrize("name", ["east", "ours"])
def test_a_name_is_had_once(engines, name):
    engines.attach(spec("east"), "settings")
    with pytest.raises(NameTaken) as refusal:
        engines.attach(spec(name), "page")
    assert str(refusal.value) == f"There is an engine {name!r} already; give this one another name."
    assert len(engines.all) == 1


def test_a_name_is_free_again_after_the_engine_could_not_be_watched(engines):
    with pytest.raises(UserError, match="^Cannot listen at "):
        engines.attach(spec("east", events="tcp://192.0.2.1:5557", bind=True), "settings")
    engines.attach(spec("east"), "settings")


def test_there_is_a_limit_which_is_said(engines, monkeypatch):
    monkeypatch.setattr(registry, "MAX_ENGINES", 2)
    for name in ("a", "b"):
        engines.attach(spec(name), "settings")
    with pytest.raises(UserError, match=r"^2 engines are watched at once; remove one first"):
        engines.attach(spec("c"), "page")
    assert engines.detach("a")
    engines.attach(spec("c"), "page")


def test_nothing_is_attached_any_more_after_the_end(engines):
    engines.attach(spec("east"), "settings")
    engines.close()
    assert engines.all == []
    with pytest.raises(UserError, match="stopping"):
        engines.attach(spec("west"), "settings")


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"make": "dynamo", "events": "file:///etc/passwd"}, "events"),
        ({"events": "ipc:///tmp/precious", "bind": True}, "bind"),
        ({"token_file": "/etc/shadow"}, "token_file"),
        ({"token_env": "KVXRAY_TOKEN"}, "token_env"),
        ({"ca_file": "/etc/shadow"}, "ca_file"),
        ({"expand": "dns"}, "expand"),
    ],
)
def test_what_only_whoever_runs_the_server_may_ask_for_is_refused_to_the_page(engines, fields, field):
    with pytest.raises(UserError) as refusal:
        engines.attach(spec("east", **fields), "page")
    assert refusal.value.field == field
    assert engines.all == []
