"""Engines are attached and let go while the server runs: by files that change, by the page, and after a restart."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest
from kvxray_backend.observed import attaching
from kvxray_storage.attached_engines import AttachedEngine, keep_attached
from sqlalchemy.exc import OperationalError

from tests.backend.foreign.engine_rig import EngineRig
from tests.backend.served import backend_of, serving, until


@pytest.fixture
def rigs():
    """Makes publishers that are closed in the end."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(EngineRig(**options))


def entry(name: str, rig: EngineRig, **more: object) -> dict[str, object]:
    return {"name": name, "events": rig.events, **more}


def write(path: Path, *entries: dict[str, object]) -> Path:
    path.write_text(json.dumps({"engines": entries}))
    return path


def names(http) -> list[str]:
    return sorted(engine.spec.name for engine in backend_of(http).observed.all)


def heard(http, name: str) -> int:
    """Hashes that were folded; 0 while nothing was heard."""
    engine = backend_of(http).observed.get(name)
    with engine.lock:
        rank = engine.ranks.get(name)
        return len(rank.followed.fold.residents(0)) if rank is not None else 0


def epoch_of(http, name: str) -> int:
    engine = backend_of(http).observed.get(name)
    with engine.lock:
        return engine.ranks[name].epoch


def test_engines_of_a_file_are_watched_from_the_start(tmp_path, rigs):
    rig = rigs()
    file = write(tmp_path / "engines.json", entry("east", rig))
    with serving(tmp_path, observe=[file]) as http:
        rig.wait_for_subscriber()
        rig.publish(3)
        until(lambda: heard(http, "east") == 3)
        assert backend_of(http).observed.origin_of("east") == "file"


def test_a_change_of_one_engine_leaves_the_other_alone(tmp_path, rigs):
    east, west, moved = rigs(), rigs(), rigs()
    file = write(tmp_path / "engines.json", entry("east", east), entry("west", west))
    with serving(tmp_path, observe=[file]) as http:
        for rig in (east, west):
            rig.wait_for_subscriber()
            rig.publish(2)
        until(lambda: heard(http, "east") == heard(http, "west") == 2)
        epoch = epoch_of(http, "east")
        untouched, touched = (backend_of(http).observed.get(name) for name in ("east", "west"))
        write(file, entry("east", east), entry("west", moved))
        until(lambda: backend_of(http).observed.get("west") not in (None, touched))
        east.publish(1)
        until(lambda: heard(http, "east") == 3)
        assert backend_of(http).observed.get("east") is untouched
        assert epoch_of(http, "east") == epoch == 1
        assert heard(http, "west") == 0
        moved.wait_for_subscriber()
        moved.publish(1)
        until(lambda: heard(http, "west") == 1)


def test_an_engine_that_is_taken_out_of_the_file_is_let_go(tmp_path, rigs):
    east, west = rigs(), rigs()
    file = write(tmp_path / "engines.json", entry("east", east), entry("west", west))
    with serving(tmp_path, observe=[file]) as http:
        assert names(http) == ["east", "west"]
        write(file, entry("east", east))
        until(lambda: names(http) == ["east"])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("engines: [", "is no YAML"),
        ("- {name: east}", "nothing of east could be seen"),
        (None, "is not there"),
    ],
)
def test_a_file_that_breaks_keeps_what_is_watched_and_says_so_until_it_is_mended(tmp_path, rigs, text, reason):
    rig = rigs()
    file = tmp_path / "engines.yaml"
    good = f"- {{name: east, events: '{rig.events}'}}"
    file.write_text(good)
    with serving(tmp_path, observe=[file]) as http:
        observed = backend_of(http).observed
        before = observed.get("east")
        if text is None:
            file.unlink()
        else:
            file.write_text(text)
        [problem] = until(lambda: observed.problems)
        assert reason in problem.sentence
        assert problem.sentence.endswith(" What was watched by it goes on.")
        assert problem.where == str(file)
        [told] = http.get("/api/engines").json()["problems"]
        assert (told["where"], told["sentence"]) == (problem.where, problem.sentence)
        file.write_text(good)
        until(lambda: not observed.problems)
        assert observed.get("east") is before


def test_a_list_of_targets_beside_the_file_is_followed_too(tmp_path):
    targets = tmp_path / "targets.json"
    targets.write_text(json.dumps([{"targets": ["127.0.0.1:1"], "labels": {"pod": "one"}}]))
    file = tmp_path / "engines.yaml"
    file.write_text("- {file_sd: targets.json, make: sglang}")
    with serving(tmp_path, observe=[file]) as http:
        assert names(http) == ["one"]
        targets.write_text(json.dumps([{"targets": ["127.0.0.1:1"], "labels": {"pod": "two", "__meta_x": "y"}}]))
        until(lambda: names(http) == ["two"])
        assert backend_of(http).observed.get("two").spec.labels == {"pod": "two"}


def test_two_files_that_ask_for_one_name_are_told_of_and_the_first_has_it(tmp_path, rigs):
    east, other = rigs(), rigs()
    first = write(tmp_path / "first.json", entry("east", east))
    second = write(tmp_path / "second.json", entry("west", other))
    with serving(tmp_path, observe=[first, second]) as http:
        write(second, entry("east", other))
        [problem] = until(lambda: backend_of(http).observed.problems)
        assert problem.sentence == f"{second} asks for another engine 'east'; give one of them another name."
        assert backend_of(http).observed.get("east").spec.events == east.events


def test_what_is_attached_on_the_page_is_watched_after_a_restart_and_not_after_it_was_removed(tmp_path, rigs):
    rig = rigs()
    spec = entry("east", rig, labels={"pod": "a"}, ranks=2)
    with serving(tmp_path) as http:
        answer = http.post("/api/engines", json=spec)
        assert (answer.status_code, answer.json()) == (201, {"name": "east"})
        rig.wait_for_subscriber()
    with serving(tmp_path) as http:
        engine = backend_of(http).observed.get("east")
        assert (engine.spec.labels, engine.spec.ranks) == ({"pod": "a"}, 2)
        assert backend_of(http).observed.origin_of("east") == "page"
        assert http.delete("/api/engines/east").status_code == 204
        assert names(http) == []
    with serving(tmp_path) as http:
        assert names(http) == []
        gone = http.delete("/api/engines/east")
        assert (gone.status_code, gone.json()) == (
            404,
            {"error": "There is no engine 'east'; /api/engines lists them."},
        )


def test_an_engine_whose_port_is_taken_is_refused_and_at_the_start_told_of_and_taken_up_again(tmp_path, monkeypatch):
    monkeypatch.setattr(attaching, "TRY_AGAIN_S", 0.5)
    with EngineRig() as taken:
        port = taken.events
        spec = {"name": "dials-us", "events": port, "bind": True}
        with serving(tmp_path) as http:
            refused = http.post("/api/engines", json=spec)
            assert refused.status_code == 400
            assert refused.json()["error"].startswith(f"Cannot listen at '{port}': ")
            assert names(http) == []
    with serving(tmp_path) as http:
        assert http.post("/api/engines", json=spec).status_code == 201
    with EngineRig(port), serving(tmp_path) as http:
        observed = backend_of(http).observed
        [problem] = observed.problems
        assert problem.sentence.startswith(f"dials-us is not watched: Cannot listen at '{port}': ")
        assert http.post("/api/engines", json=spec).status_code == 409
        assert names(http) == []
    with serving(tmp_path) as http:
        assert names(http) == ["dials-us"]
        assert not backend_of(http).observed.problems


def test_an_engine_named_in_a_file_cannot_be_removed_on_the_page(tmp_path, rigs):
    file = write(tmp_path / "engines.json", entry("east", rigs()))
    with serving(tmp_path, observe=[file], engines=[entry("west", rigs())]) as http:
        for name, words in (("east", "take it out there"), ("west", "when the server was started")):
            refused = http.delete(f"/api/engines/{name}")
            assert refused.status_code == 409
            assert words in refused.json()["error"]
        assert names(http) == ["east", "west"]


def test_an_engine_that_another_kvxray_attached_and_this_one_cannot_read_is_told_of_and_can_be_removed(tmp_path):
    with serving(tmp_path) as http:
        database = backend_of(http).database
        keep_attached(database, AttachedEngine("newer", '{"quantum": true, "metrics": "http://h/"}', 1))
        keep_attached(database, AttachedEngine("broken", "no JSON", 2))
        keep_attached(database, AttachedEngine("plain", '{"metrics": "http://127.0.0.1:1/"}', 3))
    with serving(tmp_path) as http:
        assert names(http) == ["plain"]
        told = {problem.where: problem.sentence for problem in backend_of(http).observed.problems}
        assert told["newer"].endswith("cannot be read: Mend quantum: there is no such field.")
        assert told["broken"].startswith("broken was attached by another kvxray, and cannot be read: ")
        taken = http.post("/api/engines", json={"name": "newer", "metrics": "http://127.0.0.1:1/"})
        assert taken.status_code == 409
        for name in ("newer", "broken"):
            assert http.delete(f"/api/engines/{name}").status_code == 204
        until(lambda: not backend_of(http).observed.problems)


def test_what_cannot_be_kept_is_not_watched_either(tmp_path, monkeypatch):
    def fail(*_):
        raise OperationalError("insert", {}, Exception("disk full"))

    monkeypatch.setattr(attaching, "keep_attached", fail)
    with serving(tmp_path) as http:
        refused = http.post("/api/engines", json={"name": "east", "metrics": "http://127.0.0.1:1/"})
        assert refused.status_code == 503
        assert names(http) == []


def test_an_engine_of_the_page_gives_way_to_one_of_a_file_and_comes_back_after_it(tmp_path, rigs):
    file = write(tmp_path / "engines.json")
    of_page, of_file = rigs(), rigs()
    with serving(tmp_path, observe=[file]) as http:
        observed = backend_of(http).observed
        assert http.post("/api/engines", json=entry("east", of_page)).status_code == 201
        write(file, entry("east", of_file))
        until(lambda: observed.get("east") and observed.origin_of("east") == "file")
        [problem] = until(lambda: observed.problems)
        assert problem.sentence == "The page asks for another engine 'east'; give one of them another name."
        write(file)
        until(lambda: observed.get("east") and observed.origin_of("east") == "page")
        until(lambda: not observed.problems)
        assert observed.get("east").spec.events == of_page.events


def test_a_name_of_an_engine_of_ours_is_not_had_by_others(tmp_path, rigs):
    ours = {"name": "demo", "events": "tcp://127.0.0.1:1", "replay": "tcp://127.0.0.1:2"}
    file = write(tmp_path / "engines.json", entry("demo", rigs()))
    with serving(tmp_path, ours, observe=[file]) as http:
        assert http.post("/api/engines", json=entry("demo", rigs())).status_code == 409
        [problem] = backend_of(http).observed.problems
        assert problem.sentence == (
            "demo is not watched: There is an engine 'demo' already; give this one another name."
        )
