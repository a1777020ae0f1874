"""`kvxray record`: a real publisher, a real file, and what it says."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest
from kvxray_backend.cli import main
from kvxray_backend.sources.foreign.recording import Recording

from tests.backend.foreign.engine_rig import EngineRig, payload_of


@contextmanager
def meanwhile(work: Callable[[], None]) -> Iterator[None]:
    """Does the publisher's part while the command runs here."""
    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def heard_by(rig: EngineRig, publish: Callable[[], None]) -> Callable[[], None]:
    def work() -> None:
        rig.wait_for_subscriber()
        publish()

    return work


def tokens_of(payload: bytes) -> list[int]:
    return msgspec.msgpack.decode(payload)[1][0]["token_ids"]


def test_what_an_engine_publishes_is_recorded_without_what_people_wrote(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.frames.jsonl.gz"
    with EngineRig() as rig, meanwhile(heard_by(rig, lambda: rig.publish(3))):
        assert main(["record", rig.events, str(file), "--batches", "3"]) == 0
    frames = list(Recording(file).frames())
    assert [(frame.topic, frame.seq) for frame in frames] == [(b"kv-events", seq) for seq in range(3)]
    assert all(tokens_of(frame.payload) == [0] * 16 for frame in frames)
    with gzip.open(file, "rt") as lines:
        assert json.loads(next(lines)).keys() == {"topic", "seq", "payload_b64", "nframes", "rx"}
    said = capsys.readouterr().err
    assert f"listening to {rig.events}; Ctrl-C ends it" in said
    assert "heard topic 'kv-events', rank 0" in said
    assert "topic 'kv-events', rank 0: 3 batches; no gap" in said
    assert f"3 batches in {file}, 48 token ids made zeros" in said


def test_payloads_are_kept_as_they_are_when_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run"
    payloads = [payload_of(0), b"\xc1 no msgpack", payload_of(2)]
    with EngineRig() as rig, meanwhile(heard_by(rig, lambda: rig.publish(payloads=payloads))):
        assert main(["record", rig.events, str(file), "--batches", "3", "--with-tokens"]) == 0
    assert [frame.payload for frame in Recording(file).frames()] == payloads
    assert "all token ids as they are" in capsys.readouterr().err


def test_what_cannot_be_decoded_is_left_out_since_it_may_hold_token_ids(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run"
    payloads = [payload_of(0), b"\xc1 no msgpack", payload_of(2)]
    with EngineRig() as rig, meanwhile(heard_by(rig, lambda: rig.publish(payloads=payloads))):
        assert main(["record", rig.events, str(file), "--batches", "2"]) == 0
    assert [frame.seq for frame in Recording(file).frames()] == [0, 2]
    assert "1 batch could not be freed of token ids" in capsys.readouterr().err


def test_what_was_lost_is_asked_for_and_what_is_lost_for_good_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run"

    with EngineRig(buffer_steps=4) as rig:

        def publish() -> None:
            rig.publish(2)
            rig.publish(8, is_heard=False)
            rig.publish(1)

        with meanwhile(heard_by(rig, publish)):
            assert main(["record", rig.events, str(file), "--replay", rig.replay, "--batches", "6"]) == 0
    assert [frame.seq for frame in Recording(file).frames()] == [0, 1, 7, 8, 9, 10]
    said = capsys.readouterr().err
    assert "6 batches (3 of them by replay); 1 gap, 5 of 5 missing for good" in said


def test_an_engine_that_dials_out_is_recorded_too(tmp_path: Path) -> None:
    address, file = f"ipc://{tmp_path}/events", tmp_path / "run"
    with (
        EngineRig(address, dials=True, topic=b"kv@a@m") as rig,
        meanwhile(heard_by(rig, lambda: rig.publish(1))),
    ):
        assert main(["record", address, str(file), "--bind", "--topic", "kv@", "--batches", "1"]) == 0
    assert [frame.topic for frame in Recording(file).frames()] == [b"kv@a@m"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_recording_well(number: signal.Signals, tmp_path: Path) -> None:
    file = tmp_path / "run"
    with EngineRig() as rig:
        command = [sys.executable, "-m", "kvxray_backend.cli", "record", rig.events, str(file)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            rig.wait_for_subscriber()
            rig.publish(2)
            said = ""
            while "heard" not in said:
                line = process.stderr.readline()
                assert line, said
                said += line
            process.send_signal(number)
            _, rest = process.communicate(timeout=60)
            assert process.returncode == 0, rest
    recording = Recording(file)
    seqs = [frame.seq for frame in recording.frames()]
    assert seqs == list(range(len(seqs))) != []
    assert not recording.is_cut
    assert f"in {file}" in rest


def test_hearing_nothing_leaves_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "run"
    with EngineRig() as rig:
        assert main(["record", rig.events, str(file), "--seconds", "0.1"]) == 1
    assert not file.exists()
    assert "nothing was heard" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["http://host:80", "FILE"], "is no endpoint of a socket"),
        (["inproc://kv", "FILE"], "within its own process only"),
        (["tcp://127.0.0.1:5557", "FILE", "--replay", "tcp://*:5558"], "--replay is dialled"),
        (["tcp://127.0.0.1:5557", "FILE", "--ranks", "0"], "number of data-parallel ranks"),
        (["tcp://127.0.0.1:5557", "FILE", "--seconds", "0"], "--seconds is a number above 0"),
        (["tcp://127.0.0.1:5557", "FILE", "--seconds", "nan"], "--seconds is a number above 0"),
        (["tcp://127.0.0.1:5557", "FILE", "--batches", "0"], "--batches is a whole number above 0"),
        (["tcp://no.such.host.invalid.:5557", "FOLDER/no/run"], "cannot be written"),
        (["tcp://127.0.0.1:5557", "FOLDER"], "is there already"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_no_file(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run"
    arguments = [word.replace("FILE", str(file)).replace("FOLDER", str(tmp_path)) for word in arguments]
    assert main(["record", *arguments]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1
    assert not file.exists()
