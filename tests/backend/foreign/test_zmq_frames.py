"""Frames of publishers as they are recorded, and of shapes that none sends."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

import pytest
from kvxray_backend.sources.foreign.event_batches import decode_batch
from kvxray_backend.sources.foreign.zmq_frames import BadFrames, End, Told, read_live, read_reply, replay_request

DATA = Path(__file__).parents[2] / "data"


@pytest.mark.parametrize(
    "frames",
    [[], [b""], [b"", b""], [b"", b"", b"", b"", b""], [b"", b"t", b"short", b"x"], [b"", b"short", b"x"]],
    ids=len,
)
def test_answers_of_an_unknown_shape_are_refused(frames: list[bytes]) -> None:
    with pytest.raises(BadFrames):
        read_reply(frames)


def test_an_answer_whose_empty_delimiter_was_taken_away_is_understood() -> None:
    seq = (7).to_bytes(8, "big")
    assert read_reply([seq, b"x"]) == Told(None, 7, b"x")
    assert read_reply([b"topic", seq, b"x"]) == Told(b"topic", 7, b"x")
    assert read_reply([b"\xff" * 8, b""]) == End()


@pytest.mark.parametrize("seq", [1 << 42, 1 << 62, (1 << 64) - 2])
def test_numbers_that_no_engine_comes_to_are_refused(seq: int) -> None:
    number = seq.to_bytes(8, "big")
    with pytest.raises(BadFrames, match="no engine"):
        read_live([b"t", number, b"payload"])
    with pytest.raises(BadFrames, match="no engine"):
        read_reply([b"", number, b"payload"])


def test_the_frames_that_vllm_sends_are_understood() -> None:
    capture = json.loads((DATA / "vllm_zmq_capture.json").read_text())
    topic = capture["topic"].encode()

    def frames_of(name: str) -> list[list[bytes]]:
        return [[bytes.fromhex(frame) for frame in frames] for frames in capture[name]]

    live = [read_live(frames) for frames in frames_of("live")]
    assert [(told.topic, told.seq) for told in live] == [(topic, seq) for seq in range(8)]
    *answers, end = [read_reply(frames) for frames in frames_of("replay")]
    assert answers == live[3:]
    assert end == End()
    assert read_reply([bytes.fromhex(frame) for frame in capture["replay_from_99"]]) == End()
    assert replay_request(0) == [bytes.fromhex(frame) for frame in capture["replay_request"]]


REPLAYS = sorted((DATA / "captures").glob("*.replay.jsonl.gz"))


@pytest.mark.parametrize("path", REPLAYS, ids=lambda path: path.name.removesuffix(".replay.jsonl.gz"))
def test_recorded_answers_of_every_release_are_understood(path: Path) -> None:
    with gzip.open(path, "rt") as lines:
        replies = [read_reply([base64.b64decode(frame) for frame in json.loads(line)["frames_b64"]]) for line in lines]
    *batches, end = replies
    assert end == End()
    seqs = [batch.seq for batch in batches if isinstance(batch, Told)]
    assert len(seqs) == len(batches) > 0
    assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
    for batch in batches:
        assert isinstance(batch, Told)
        assert decode_batch(batch.payload).events
