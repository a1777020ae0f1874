"""Public bug reports, and variants of each kind, go the product's own way and come out as they should; and the runner.

tests/data/cases_foreign.jsonl: inputs modelled on public reports, each of which it names. cases_foreign_own.jsonl: the
same kinds with other numbers, hashes and engines, so that nothing is fitted to the first. cases_blocks*.jsonl: both of
engines that tell of their blocks.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.__main__ import judge, main
from tests.conformance.case import Case, read_cases
from tests.conformance.world import World
from tests.engine.verdict import BadInput

DATA = Path(__file__).parents[1] / "data"
REPORTED, OWN = DATA / "cases_foreign.jsonl", DATA / "cases_foreign_own.jsonl"
OF_BLOCKS, OWN_OF_BLOCKS = DATA / "cases_blocks.jsonl", DATA / "cases_blocks_own.jsonl"
CASES = read_cases([REPORTED, OWN, OF_BLOCKS, OWN_OF_BLOCKS])


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.id}-{case.settings['cls']}")
def test_a_case_comes_out_as_it_should(case: Case) -> None:
    assert judge(case).misses == []


def test_ids_are_told_once_and_every_letter_has_variants() -> None:
    ids = [case.id for case in CASES]
    assert len(set(ids)) == len(ids)
    for own, reported in ((OWN, REPORTED), (OWN_OF_BLOCKS, OF_BLOCKS)):
        assert {case.letter for case in read_cases([own])} == {case.letter for case in read_cases([reported])}
    assert {case.letter for case in CASES} == set("TESMKLRP")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_a_case_that_expects_something_else_is_a_miss(case: Case) -> None:
    key, told = next((key, told) for key, told in case.expect.items() if key not in ("note", "block_size"))
    if any(step.get("ctl") == "stall_consumer" for step in case.steps):
        pytest.skip("its sockets were stalled once already")
    misses = judge(Case(case.id, case.steps, {**case.expect, key: other_than(key, told)}, case.settings)).misses
    assert any(miss.startswith(f"{case.id}: {key}: expected") for miss in misses)


def other_than(key: str, told: Any) -> Any:
    match told:
        case bool():
            return not told
        case int() | float():
            return told + 1
        case list():
            return [*told, "double_free:77" if key == "findings" else 77]
        case dict():
            return {**told, "9": [77] if key != "reuses" else 77}
        case None:
            return "prefix_caching_off"
        case _:
            return f"{told}x"


def test_a_finding_that_nobody_expects_is_a_miss() -> None:
    case = next(case for case in CASES if case.expect.get("findings"))
    silent = Case(case.id, case.steps, {"findings": []}, case.settings)
    assert judge(silent).failed == 1


def test_a_consumer_that_never_drains_blocks_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What says that the engine is never blocked can say the other thing."""
    from kvxray_backend.sources.foreign.zmq_stream import ZmqStream

    monkeypatch.setattr(ZmqStream, "_hear", lambda stream, number, line: stream._wake_in.recv(1))
    monkeypatch.setattr("tests.conformance.transport_steps.PATIENCE_S", 1.0)
    world = World(Case("T0", [{"ctl": "stall_consumer", "seconds": 5}], {}, {}))
    world.run()
    assert world.engine_blocked is True


def test_a_stale_stream_is_an_alarm_only_where_metrics_show_work() -> None:
    severities = {}
    for case in CASES:
        if case.id in ("E16", "E62"):
            world = World(case)
            world.run()
            severities[case.id] = [one.severity for one in world.findings() if one.kind == "stale_stream"]
    assert severities == {"E16": ["info"], "E62": ["warning"]}


def test_the_runner_counts_cases_and_skips_letters_not_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(REPORTED), str(OWN), "--only", "S,K"]) == 0
    num = sum(case.letter in "SK" for case in CASES)
    assert capsys.readouterr().out == f"{num} passed, 0 failed\n"


def test_a_miss_says_what_was_expected_and_what_came(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = next(case.settings for case in CASES if case.id == "E03")
    told = write(tmp_path, {**case, "expect": {"resident_certain": [1, 3]}}, case)
    assert main([told]) == 1
    out = capsys.readouterr().out
    assert out == "E03: resident_certain: expected ['1', '3'], got ['1', '2', '4']\n1 passed, 1 failed\n"


def test_what_is_not_built_is_a_miss_that_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = write(
        tmp_path,
        {"id": "P9", "steps": [{"eng": [["defragment", "r1"]]}], "expect": {"findings": []}},
        {"id": "P8", "steps": [], "expect": {"attribution": {}}},
    )
    assert main([told]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "P9: the operation defragment of an engine: not built yet",
        "P8: the answer to attribution: not built yet",
        "0 passed, 2 failed",
    ]


BROKEN: dict[str, Any] = {
    "has no steps": {"id": "T1", "expect": {}},
    "none of ev": {"id": "T1", "steps": [{"what": 1}], "expect": {}},
    "whose source, number or events": {"id": "T1", "steps": [{"src": "a", "seq": -1, "ev": []}], "expect": {}},
    "are no frames": {"id": "T1", "steps": [{"ctl": "replay", "frames": ["x"], "end": [""]}], "expect": {}},
    "is no hash": {"id": "T1", "steps": [{"src": "a", "seq": 0, "ev": [["BlockRemoved", ["bytes:zz"]]]}], "expect": {}},
    "are no seconds": {"id": "T1", "steps": [{"ctl": "silence", "seconds": -1}], "expect": {}},
    "what cannot be": {"id": "T1", "steps": [], "expect": {"resident": 5}},
}


@pytest.mark.parametrize("what", BROKEN)
def test_bad_input_is_one_sentence(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([write(tmp_path, BROKEN[what])]) == 2
    told = capsys.readouterr()
    assert what in told.err
    assert (told.out, len(told.err.splitlines())) == ("", 1)


def test_files_without_cases_are_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "odd.jsonl").write_text("{")
    assert main([str(tmp_path / "empty.jsonl")]) == main([str(tmp_path / "odd.jsonl")]) == 2
    assert main([str(tmp_path / "missing.jsonl")]) == main([str(REPORTED), "--only", "X"]) == 2
    with pytest.raises(BadInput):
        read_cases([tmp_path / "odd.jsonl"])
    capsys.readouterr()


def write(folder: Path, *cases: Any) -> str:
    path = folder / "cases.jsonl"
    path.write_text("".join(json.dumps(case) + "\n" for case in cases))
    return str(path)
