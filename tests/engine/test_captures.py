"""Our scheduler in vLLM's place, step by step, and the runner that compares.

tests/data/captures: recordings of vLLM's own scheduler (Apache-2.0) with a model that computes nothing. In
mixed-priority-11 it schedules by priority and keeps a watermark of 15 % free.
"""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine.captures import judge, main
from tests.engine.recording import recordings

FOLDER = Path(__file__).parents[1] / "data" / "captures"
RECORDINGS = list(recordings(FOLDER))


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_every_snapshot_is_vllms(path: Path) -> None:
    verdict = judge(path)
    assert verdict.misses == []
    assert verdict.passed > 20


def test_the_runner_counts_snapshots(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    take(tmp_path, "vllm-0.32.0-reset")
    take(tmp_path, "vllm-0.32.0-abort")
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == "65 passed, 0 failed\n"


def test_a_recording_without_frames_compares_its_state(tmp_path: Path) -> None:
    path = take(tmp_path, "vllm-0.32.0-reset")
    (tmp_path / f"{path.name}.frames.jsonl.gz").unlink()
    assert judge(path).passed == 22


Change = Callable[[dict[str, Any]], object]
CHANGES: dict[str, Change] = {
    "num_free": lambda snapshot: snapshot.update(num_free=1),
    "usage": lambda snapshot: snapshot.update(usage=0.123),
    "free_queue": lambda snapshot: snapshot["free_queue"].reverse(),
    "blocks": lambda snapshot: snapshot["blocks"].pop(),
    "cached": lambda snapshot: snapshot["cached"].popitem(),
    "requests": lambda snapshot: snapshot["requests"]["p1"].update(status="WAITING"),
    "running": lambda snapshot: snapshot["running"].pop(),
    "num_waiting": lambda snapshot: snapshot.update(num_waiting=9),
    "prefix_stats": lambda snapshot: snapshot["prefix_stats"].update(hits=1),
    "events": lambda snapshot: snapshot.update(last_seq=snapshot["last_seq"] - 1),
}


@pytest.mark.parametrize("field", CHANGES)
def test_every_part_of_a_snapshot_counts(field: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = take(tmp_path, "vllm-0.32.0-preempt")
    change_line(tmp_path / f"{path.name}.truth.jsonl.gz", 40, CHANGES[field])
    assert main([str(tmp_path)]) == 1
    miss, ending = capsys.readouterr().out.splitlines()
    assert miss.startswith(f"{path.name}, step 40 '': {'' if field == 'events' else field}")
    assert ending == "40 passed, 85 failed"


@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("scheduled is", lambda op: op["scheduled"].update(p0=7)),
        ("blocks is", lambda op: op["sampled"].pop("p0")),
    ],
)
def test_what_was_done_counts(what: str, change: Change, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = take(tmp_path, "vllm-0.32.0-preempt")
    change_line(tmp_path / f"{path.name}.inputs.jsonl.gz", 20, change)
    assert main([str(tmp_path)]) == 1
    assert what in capsys.readouterr().out


def test_inputs_that_end_early_are_a_miss(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = take(tmp_path, "vllm-0.32.0-plain")
    inputs = tmp_path / f"{path.name}.inputs.jsonl.gz"
    inputs.write_bytes(gzip.compress(b"\n".join(gzip.decompress(inputs.read_bytes()).splitlines()[:-3])))
    assert main([str(tmp_path)]) == 1
    assert "the inputs end before this snapshot" in capsys.readouterr().out


BROKEN: dict[str, tuple[str, Change | None]] = {
    "no config": ("inputs", lambda config: config.pop("none_hash")),
    "another hash": ("inputs", lambda config: config.update(hash="sha256")),
    "no snapshot": ("truth", lambda snapshot: snapshot.pop("free_queue")),
    "no payload": ("frames", lambda frame: frame.pop("payload_b64")),
    "a payload that is no message": ("frames", lambda frame: frame.update(payload_b64="AAAA")),
    "half a gzip": ("truth", None),
}


@pytest.mark.parametrize(("what", "change"), BROKEN.values(), ids=BROKEN)
def test_bad_input_is_one_sentence(
    what: str, change: Change | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = take(tmp_path, "vllm-0.32.0-reset")
    changed = tmp_path / f"{path.name}.{what}.jsonl.gz"
    if change is None:
        changed.write_bytes(changed.read_bytes()[:700])
    else:
        change_line(changed, 0, change)
    assert main([str(tmp_path)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert len(told.err.splitlines()) == 1


def test_a_folder_without_recordings_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert main([]) == 2
    assert "holds no recording" in capsys.readouterr().err


def take(folder: Path, name: str) -> Path:
    """A copy of a recording that a test may damage."""
    for path in FOLDER.glob(f"{name}.*"):
        shutil.copy(path, folder)
    return folder / name


def change_line(path: Path, number: int, change: Change) -> None:
    lines = gzip.decompress(path.read_bytes()).splitlines()
    record = json.loads(lines[number])
    change(record)
    lines[number] = json.dumps(record).encode()
    path.write_bytes(gzip.compress(b"\n".join(lines)))
