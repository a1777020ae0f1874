"""The cached set of real engines, as their streams tell it, and the runner that compares.

tests/data/captures: recordings of vLLM's own scheduler and of SGLang's radix cache (both Apache-2.0).
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance import captures
from tests.conformance.captures import judge, main, recordings

FOLDER = Path(__file__).parents[1] / "data" / "captures"
RECORDINGS = list(recordings(FOLDER))
Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_every_snapshot_is_the_engines(path: Path) -> None:
    verdict = judge(path)
    assert verdict.misses == []
    assert verdict.passed > 20


def test_there_are_recordings_of_both_engines_and_of_two_ranks() -> None:
    names = " ".join(path.name for path in RECORDINGS)
    assert all(one in names for one in ("sglang", "vllm-0.11.2", "vllm-0.32.0", "rank0", "rank1", "int_hashes"))


def test_a_set_in_the_place_of_counts_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = captures.ResidencyMap
    monkeypatch.setattr(
        captures, "ResidencyMap", lambda descriptor, store_semantics: counted(descriptor, store_semantics="reuse")
    )
    assert judge(FOLDER / "vllm-0.32.0-dup").failed > 20
    assert judge(FOLDER / "vllm-0.32.0-plain").failed == 0


def test_the_runner_counts_snapshots_and_streams(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    take(tmp_path, "vllm-0.32.0-reset")
    assert main([str(tmp_path)]) == 0
    # 22 snapshots, one of them ahead of the stream, and the stream itself.
    assert capsys.readouterr().out == "22 passed, 0 failed\n"


CHANGES: dict[str, Change] = {
    "is there 1 times, in truth 0": lambda snapshot: snapshot["cached"].popitem(),
    "is there 1 times, in truth 2": lambda snapshot: next(iter(snapshot["cached"].values())).append(9),
    "in group 1 is there 0 times, in truth 1": lambda snapshot: snapshot["cached"].update(
        {"ab" * 32 + "00000001": [3]}
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_truth_that_is_another_is_a_miss(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    take(tmp_path, "vllm-0.32.0-reset")
    change_line(tmp_path / "vllm-0.32.0-reset.truth.jsonl.gz", 4, CHANGES[what])
    assert main([str(tmp_path)]) == 1
    miss, ending = capsys.readouterr().out.splitlines()
    assert miss.startswith("vllm-0.32.0-reset, snapshot 5 '': ")
    assert what in miss
    assert ending == "21 passed, 1 failed"


def test_a_stream_of_another_rank_is_a_miss(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in FOLDER.glob("vllm-0.32.0-dp2-rank0.*"):
        shutil.copy(path, tmp_path / path.name.replace("rank0", "rank1"))
    assert main([str(tmp_path)]) == 1
    assert "the batches come from ranks {0}" in capsys.readouterr().out


BROKEN: dict[str, tuple[str, Change]] = {
    "has no cached": ("truth", lambda snapshot: snapshot.pop("cached")),
    "has no payload_b64": ("frames", lambda frame: frame.pop("payload_b64")),
    "holds no batch": ("frames", lambda frame: frame.update(payload_b64="AAAA")),
    "is missing": ("frames", lambda frame: frame.update(seq=77)),
}


@pytest.mark.parametrize("what", BROKEN)
def test_bad_input_is_one_sentence(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    take(tmp_path, "vllm-0.32.0-reset")
    name, change = BROKEN[what]
    change_line(tmp_path / f"vllm-0.32.0-reset.{name}.jsonl.gz", 0, change)
    assert main([str(tmp_path)]) == 2
    told = capsys.readouterr()
    assert what in told.err
    assert (told.out, len(told.err.splitlines())) == ("", 1)


def test_a_folder_without_recordings_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert "holds no recording" in capsys.readouterr().err
    assert main([]) == 2


def take(folder: Path, name: str) -> None:
    """A copy of a recording that a test may damage."""
    for path in FOLDER.glob(f"{name}.*"):
        shutil.copy(path, folder)


def change_line(path: Path, number: int, change: Change) -> None:
    lines = gzip.decompress(path.read_bytes()).splitlines()
    record = json.loads(lines[number])
    change(record)
    lines[number] = json.dumps(record).encode()
    path.write_bytes(gzip.compress(b"\n".join(lines)))
