"""Pool, prefix cache, block tables and vLLM's events against vLLM 0.33's own answers, and the runner that compares.

tests/data/vllm_manager_traces.json.gz: what vLLM's KVCacheManager (Apache-2.0) answered to random operations.
"""

from __future__ import annotations

import gzip
import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.engine.golden import judge, main

FILE = Path(__file__).parents[1] / "data" / "vllm_manager_traces.json.gz"
TRACES = json.loads(gzip.decompress(FILE.read_bytes()))


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: f"seed {trace['seed']}")
def test_every_answer_is_vllms(trace: dict) -> None:
    verdict = judge(trace)
    assert verdict.misses == []
    assert (verdict.passed, verdict.failed) == (len(trace["ops"]), 0)


def test_the_runner_counts_operations(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(FILE), str(FILE)]) == 0
    assert capsys.readouterr().out == "900 passed, 0 failed\n"


WRONG: dict[str, Any] = {
    "hit_blocks": [3, 2, 1],
    "hit_tokens": 1,
    "new_blocks": [9],
    "free_order": [1],
    "ref_cnt": {"1": 7},
    "cached": [11],
    "usage": 0.99,
    "events": [{"type": "AllBlocksCleared"}],
}


@pytest.mark.parametrize("field", WRONG)
def test_every_answer_counts(field: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = deepcopy(TRACES[0])
    at = next(i for i, op in enumerate(trace["ops"]) if i > 20 and op["op"] == "add" and op["new_blocks"])
    trace["ops"][at][field] = WRONG[field]
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps([trace]))
    assert main([str(changed)]) == 1
    miss, ending = capsys.readouterr().out.splitlines()
    assert f"operation {at} (add" in miss
    assert f"{field} is" in miss
    assert ending == f"{at} passed, {150 - at} failed"


def test_the_counters_at_the_end_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = deepcopy(TRACES[0])
    trace["stats"]["hits"] += 1
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps([trace]))
    assert main([str(changed)]) == 1
    assert capsys.readouterr().out.endswith("149 passed, 1 failed\n")


BROKEN = {
    "not JSON": b"[{",
    "no traces": b"{}",
    "no operations": b'[{"seed": 1}]',
    "an unknown operation": json.dumps([TRACES[0] | {"ops": [TRACES[0]["ops"][0] | {"op": "swap"}]}]).encode(),
    "an operation without its fields": json.dumps([TRACES[0] | {"ops": [{"op": "add"}]}]).encode(),
    "a step of nobody": json.dumps(
        [TRACES[0] | {"ops": [next(op for op in TRACES[0]["ops"] if op["op"] == "step")]}]
    ).encode(),
    "another hash": json.dumps([TRACES[0] | {"hash": "xxhash"}]).encode(),
    "half a gzip": FILE.read_bytes()[:4000],
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_bad_input_is_one_sentence(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "traces.json.gz"
    path.write_bytes(content)
    assert main([str(path)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert len(told.err.splitlines()) == 1


def test_without_a_file_it_says_how_to_call_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert main([str(tmp_path / "missing.json.gz")]) == 2
    assert "Usage: python -m tests.engine.golden FILE.json.gz" in capsys.readouterr().err
