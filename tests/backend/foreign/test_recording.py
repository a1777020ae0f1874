"""Recordings are read and written line by line, and hold nobody's words unless asked to."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kvxray_backend.sources.foreign.blank_tokens import MAX_BLANKED_BYTES, blank_tokens
from kvxray_backend.sources.foreign.caps import BadBatch
from kvxray_backend.sources.foreign.event_batches import decode_batch
from kvxray_backend.sources.foreign.recording import MAX_LINE_BYTES, Frame, Recorder, Recording
from kvxray_backend.sources.foreign.told import Stored
from kvxray_backend.sources.foreign.zmq_frames import End, Told, read_reply
from kvxray_engine.errors import UserError

CAPTURES = Path(__file__).parents[2] / "data" / "captures"
FRAMES = sorted(CAPTURES.glob("*.frames.jsonl.gz"))
REPLAYS = sorted(CAPTURES.glob("*.replay.jsonl.gz"))
encode = msgspec.msgpack.encode


def lines_of(path: Path) -> list[dict]:
    with gzip.open(path, "rt") as lines:
        return [json.loads(line) for line in lines]


def named(path: Path) -> str:
    return path.name.partition(".jsonl")[0]


def write_lines(path: Path, *lines: bytes) -> Path:
    path.write_bytes(gzip.compress(b"".join(lines)))
    return path


LINE = b'{"topic":"t","seq":%d,"payload_b64":"AAAA"}\n'


@pytest.mark.parametrize("path", FRAMES, ids=named)
def test_recordings_of_engines_are_read_and_written_as_they_are(path: Path, tmp_path: Path) -> None:
    recording = Recording(path)
    frames = list(recording.frames())
    assert len(frames) == len(lines_of(path)) > 0
    assert (recording.num_bad, recording.is_cut) == (0, False)
    assert [frame.seq for frame in frames] == list(range(len(frames)))
    copy = tmp_path / "copy.frames.jsonl.gz"
    with Recorder(copy) as recorder:
        for frame in frames:
            recorder.write(frame)
    assert list(Recording(copy).frames()) == frames
    known = ("topic", "seq", "payload_b64", "rx")
    assert [[line.get(name) for name in known] for line in lines_of(copy)] == [
        [line.get(name) for name in known] for line in lines_of(path)
    ]


@pytest.mark.parametrize("path", REPLAYS, ids=named)
def test_recorded_answers_are_read_and_written_as_they_are(path: Path, tmp_path: Path) -> None:
    replies = list(Recording(path).replies())
    assert [type(read_reply(frames)) for frames in replies] == [Told] * (len(replies) - 1) + [End]
    copy = tmp_path / "copy.replay.jsonl.gz"
    with Recorder(copy) as recorder:
        for frames in replies:
            recorder.write_reply(frames)
    assert lines_of(copy) == lines_of(path)


def test_a_topic_that_is_no_text_and_the_line_it_came_over_are_kept(tmp_path: Path) -> None:
    frames = [Frame(b"\xff\xfe", 2**64 - 2, b"\x00", 1.5, 3), Frame("kv@pod@m\u00e9".encode(), 0, b"")]
    path = tmp_path / "r"
    with Recorder(path) as recorder:
        for frame in frames:
            recorder.write(frame)
    assert list(Recording(path).frames()) == frames


def test_a_recording_that_was_cut_off_is_read_up_to_its_last_whole_line(tmp_path: Path) -> None:
    path = tmp_path / "r"
    recorder = Recorder(path)
    frames = [Frame(b"t", seq, bytes(1000)) for seq in range(5)]
    for frame in frames:
        recorder.write(frame)
    recorder.flush()
    killed = tmp_path / "killed"
    killed.write_bytes(path.read_bytes())
    recording = Recording(killed)
    assert list(recording.frames()) == frames
    assert recording.is_cut
    recorder.close()
    whole = path.read_bytes()
    for length in range(10, len(whole)):  # its header is written at once
        killed.write_bytes(whole[:length])
        recording = Recording(killed)
        found = list(recording.frames())
        assert found == frames[: len(found)]
        assert recording.is_cut


def test_a_line_without_its_end_is_no_line(tmp_path: Path) -> None:
    recording = Recording(write_lines(tmp_path / "r", LINE % 0, (LINE % 1).rstrip()))
    assert [frame.seq for frame in recording.frames()] == [0]
    assert recording.is_cut


@pytest.mark.parametrize(
    "line",
    [
        b"\n", b"[]\n", b"no json\n", b"\xff\xff\n", b'{"topic":"t","seq":0}\n',
        b'{"topic":"t","seq":-1,"payload_b64":""}\n', b'{"topic":"t","seq":18446744073709551615,"payload_b64":""}\n',
        b'{"topic":"t","seq":1.5,"payload_b64":""}\n', b'{"topic":"t","seq":0,"payload_b64":"?"}\n',
        b'{"topic":"' + b"t" * 5000 + b'","seq":0,"payload_b64":""}\n', b"[" * 100_000 + b"\n",
        b'{"topic":"t","seq":0,"payload_b64":"' + b"A" * MAX_LINE_BYTES + b'"}\n',
    ],
    ids=lambda line: line[:40].decode(errors="replace").strip(),
)  # fmt: skip
def test_a_bad_line_costs_one_counter_and_the_rest_is_read(line: bytes, tmp_path: Path) -> None:
    recording = Recording(write_lines(tmp_path / "r", LINE % 0, line, LINE % 1))
    assert [frame.seq for frame in recording.frames()] == [0, 1]
    assert recording.num_bad == 1


def test_an_answer_with_a_bad_frame_is_left_out(tmp_path: Path) -> None:
    recording = Recording(write_lines(tmp_path / "r", b'{"frames_b64":["","?"]}\n', b'{"frames_b64":["",""]}\n'))
    assert list(recording.replies()) == [[b"", b""]]
    assert recording.num_bad == 1


def test_what_is_no_recording_is_one_sentence(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_bytes(LINE % 0)
    for path in (plain, tmp_path / "nowhere", tmp_path):
        with pytest.raises(UserError):
            list(Recording(path).frames())


def test_a_recording_that_is_there_is_never_written_over(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "r", LINE % 0)
    before = path.read_bytes()
    with pytest.raises(UserError, match="already"):
        Recorder(path)
    assert path.read_bytes() == before
    with pytest.raises(UserError, match="cannot be written"):
        Recorder(tmp_path / "no" / "folder")


def test_a_recording_of_nothing_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "r"
    Recorder(path).close()
    assert not path.exists()


@pytest.mark.parametrize("path", FRAMES, ids=named)
def test_without_its_tokens_a_batch_tells_the_same_of_its_blocks(path: Path) -> None:
    num_tokens = 0
    for frame in Recording(path).frames():
        blanked, num_zeros = blank_tokens(frame.payload)
        before, after = decode_batch(frame.payload), decode_batch(blanked)
        assert (after.ts, after.rank, after.events, after.oddities) == (
            before.ts, before.rank, before.events, before.oddities
        )  # fmt: skip
        assert num_zeros == sum(event.num_tokens or 0 for event in before.events if isinstance(event, Stored))
        assert blank_tokens(blanked)[0] == blanked
        num_tokens += num_zeros
    assert num_tokens > 0


SECRET = 7_654_321
TOKENS = [SECRET] * 4


@pytest.mark.parametrize(
    "event",
    [
        {"type": "BlockStored", "block_hashes": [SECRET + 1], "token_ids": TOKENS, "block_size": 4},
        {"type": "BlockStored", "token_ids": [[SECRET, SECRET], [SECRET, SECRET]]},
        {"type": "BlockStored", "lookahead_token_ids": [TOKENS, TOKENS]},
        {"type": "BlockStored", "some_new_field": {"deep": [{"deeper": TOKENS}]}},
        {"type": "BlockStored", "packed_tokens": encode(TOKENS)},
        {"type": "SomethingNew", "prompt": TOKENS},
        {"token_ids": TOKENS},
        ["BlockStored", [1], None, TOKENS, 4, None, "GPU"],
        ["BlockStored", [1], None, TOKENS, 4, None, "GPU", None, None, None, None, None, TOKENS],
        ["SomethingNew", TOKENS],
        [TOKENS],
        [[TOKENS]],
    ],
    ids=str,
)
def test_token_ids_are_found_wherever_they_are(event: object) -> None:
    payload = encode([1.0, [event], 0, [TOKENS]])
    assert encode(SECRET) in payload
    blanked, num_zeros = blank_tokens(payload)
    assert encode(SECRET) not in blanked
    assert num_zeros >= len(TOKENS)
    assert len(msgspec.msgpack.decode(blanked)[1]) == 1


def test_hashes_and_names_stay() -> None:
    event = {
        "type": "BlockStored", "block_hashes": [2**64 - 1, -5, b"\x01" * 32], "parent_block_hash": 3, "token_ids": [1],
        "block_size": 1, "lora_name": "a", "extra_keys": [["a", ["image", 3]]], "medium": "GPU", "session_id": "s",
    }  # fmt: skip
    blanked, _ = blank_tokens(encode([1.5, [event], 2]))
    assert msgspec.msgpack.decode(blanked) == [1.5, [{**event, "token_ids": [0]}], 2]


@given(st.binary(max_size=200))
def test_what_is_no_batch_is_refused_in_one_sentence(payload: bytes) -> None:
    try:
        blank_tokens(payload)
    except BadBatch as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xc1",
        b"\x91" * 100_000,
        encode({}),
        encode([1.0]),
        encode([1.0, {}]),
        b"\xdd\xff\xff\xff\xff",
        encode([1.0, []]) + bytes(1),
        encode([1.0, [[]] * MAX_BLANKED_BYTES]),
    ],
    ids=len,
)
def test_hostile_payloads_are_refused(payload: bytes) -> None:
    with pytest.raises(BadBatch):
        blank_tokens(payload)
