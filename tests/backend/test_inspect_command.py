"""`kvxray inspect`: recordings of real engines against their truth, what is said in words, and files that are none."""

from __future__ import annotations

import gzip
import json
import os
import tracemalloc
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kvxray_backend.cli import main

from tests.backend.foreign.json_samples import (
    DYNAMO_LINES,
    TRTLLM_EVENTS,
    dynamo,
    dynamo_block,
    trtllm,
    trtllm_block,
    trtllm_stored,
    written,
)

CAPTURES = Path(__file__).parents[1] / "data" / "captures"
EVICTION = CAPTURES / "vllm-0.32.0-eviction.frames.jsonl.gz"
WITH_TRUTH = sorted(path.name.removesuffix(".truth.jsonl.gz") for path in CAPTURES.glob("*.truth.jsonl.gz"))
Say = Callable[..., str]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Say:
    """What the command prints when all goes well."""

    def run(*arguments: str | Path) -> str:
        assert main(["inspect", *map(str, arguments)]) == 0
        told = capsys.readouterr()
        assert told.err == ""
        return told.out

    return run


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Say:
    """The one sentence that the command ends with."""

    def run(*arguments: str | Path) -> str:
        assert main(["inspect", *map(str, arguments)]) == 2
        told = capsys.readouterr()
        assert told.out == ""
        assert told.err.startswith("kvxray: ")
        assert told.err.count("\n") == 1
        return told.err

    return run


def stream_of(text: str, number: int = 0) -> dict[str, Any]:
    stream: dict[str, Any] = json.loads(text)["files"][0]["streams"][number]
    return stream


def lines_of(path: Path) -> list[bytes]:
    return gzip.decompress(path.read_bytes()).splitlines(keepends=True)


def kinds_of(stream: dict[str, Any]) -> dict[str, int]:
    return {finding["kind"]: finding["count"] for finding in stream["findings"]}


def truth_of(name: str) -> list[dict[str, Any]]:
    """Snapshots that are not ahead of the stream, and that tell of anything published."""
    snapshots = map(json.loads, lines_of(CAPTURES / f"{name}.truth.jsonl.gz"))
    return [one for one in snapshots if "still queued" not in one["note"] and one["last_seq"] >= 0]


def cached_by_group(snapshot: dict[str, Any]) -> dict[int, tuple[int, int]]:
    """Hashes and blocks of each group. A key of vLLM ends with the group in 8 digits; SGLang's are numbers."""
    hashes: Counter[int] = Counter()
    blocks: Counter[int] = Counter()
    for key, copies in snapshot["cached"].items():
        group = 0 if len(key) <= 20 else int(key[-8:], 16)
        hashes[group] += 1
        blocks[group] += len(copies)
    return {group: (hashes[group], blocks[group]) for group in hashes}


@pytest.mark.parametrize("name", WITH_TRUTH)
def test_what_was_cached_is_what_the_engine_had_at_any_batch(name: str, said: Say) -> None:
    snapshots = truth_of(name)
    for snapshot in (snapshots[len(snapshots) // 3], snapshots[2 * len(snapshots) // 3], snapshots[-1]):
        path = CAPTURES / f"{name}.frames.jsonl.gz"
        text = said(path, "--json", "--store-semantics", "copies", "--at", str(snapshot["last_seq"]))
        media = stream_of(text)["media"]
        told = {one["group"]: (one["certain"], one["copies"]) for one in media if one["copies"]}
        assert told == cached_by_group(snapshot)
        assert all(one["maybe"] == 0 and one["medium"] == "GPU" for one in media)


@pytest.mark.parametrize("name", WITH_TRUTH)
def test_where_stores_may_be_reports_the_truth_lies_between_certain_and_maybe(name: str, said: Say) -> None:
    media = stream_of(said(CAPTURES / f"{name}.frames.jsonl.gz", "--json"))["media"]
    truth = cached_by_group(truth_of(name)[-1])
    for one in media:
        hashes, _ = truth.get(one["group"], (0, 0))
        assert one["certain"] <= hashes <= one["certain"] + one["maybe"]


@pytest.mark.parametrize("name", WITH_TRUTH)
def test_events_are_counted_as_they_are_on_the_wire(name: str, said: Say) -> None:
    path = CAPTURES / f"{name}.frames.jsonl.gz"
    events: Counter[str] = Counter()
    hashes: Counter[str] = Counter()
    for line in lines_of(path):
        for event in msgspec.msgpack.decode(b64decode(json.loads(line)["payload_b64"]))[1]:
            kind, named = (
                (event["type"], event.get("block_hashes")) if isinstance(event, dict) else (event[0], event[1])
            )
            events[kind] += 1
            hashes[kind] += len(named or ())
    stream = stream_of(said(path, "--json"))
    names = {"stored": "BlockStored", "removed": "BlockRemoved", "cleared": "AllBlocksCleared"}
    assert {names[kind]: count["events"] for kind, count in stream["events"].items()} == events
    assert {names[kind]: count["hashes"] for kind, count in stream["events"].items()} == hashes
    assert stream["num_removed"] == hashes["BlockRemoved"]
    assert (stream["num_batches"], stream["last_seq"]) == (len(lines_of(path)), len(lines_of(path)) - 1)


def test_it_says_in_words_what_the_cache_held(said: Say) -> None:
    text = said(EVICTION)
    for line in (
        "topic 'kv-events@eviction', rank 0",
        "  dialect         msgpack, events as maps (vLLM from 0.24, SGLang, TensorRT-LLM), 32-byte hashes",
        "  batches         25, 0 to 24",
        "  time            2026-11-29T12:56:14.463Z to 2026-11-29T12:56:14.488Z, 0.025 s",
        "  events          31 stored (84 hashes), 62 removed (62 hashes)",
        "  group           full_attention, blocks of 16 tokens",
        "  capacity        not told by the stream",
        "                  GPU         0      22       22      0      22     352",
        "  chains          6 chains from 4 roots, the longest of 6 blocks; shared beginnings:",
        "                  8ad04b7302ad2a5…      4 blocks, 6 behind in 3 branches",
        "  removals        62 hashes; stored again later: 0 (0%)",
        "  findings        none",
        "  not observable  block ids, reference counts, holders, free blocks, internal fragmentation",
    ):
        assert line in text.splitlines()


def test_no_line_is_wider_than_a_hundred_columns(said: Say, tmp_path: Path) -> None:
    events = [trtllm(number, trtllm_stored(trtllm_block(number, range(4)), parent=number + 99)) for number in range(9)]
    (tmp_path / "odd.jsonl").write_bytes(b"\n".join(written(*events)))
    text = said(*(CAPTURES / f"{name}.frames.jsonl.gz" for name in WITH_TRUTH), tmp_path / "odd.jsonl")
    assert max(map(len, text.splitlines())) <= 100


def test_older_engines_write_arrays(said: Say) -> None:
    text = said(CAPTURES / "vllm-0.16.0-eviction.frames.jsonl.gz")
    assert "  dialect         msgpack, events as arrays (vLLM before 0.24), 32-byte hashes\n" in text
    assert "  dialect         msgpack, events as maps (vLLM from 0.24, SGLang, TensorRT-LLM), 64-bit hashes\n" in said(
        CAPTURES / "sglang-0.5.23-page16.frames.jsonl.gz"
    )


def test_a_plain_file_is_read_like_a_gzipped_one(said: Say, tmp_path: Path) -> None:
    plain = tmp_path / "plain.jsonl"
    plain.write_bytes(b"".join(lines_of(EVICTION)))
    assert said(plain, "--json").replace(str(plain), "") == said(EVICTION, "--json").replace(str(EVICTION), "")


def test_several_files_are_told_one_after_the_other(said: Say) -> None:
    names = [CAPTURES / f"vllm-0.32.0-dp2-rank{rank}.frames.jsonl.gz" for rank in (0, 1)]
    files = json.loads(said(*names, "--json"))["files"]
    assert [file["file"] for file in files] == [str(name) for name in names]
    assert [file["streams"][0]["rank"] for file in files] == [0, 1]


def test_what_did_not_come_came_twice_or_began_anew_is_found(said: Say, tmp_path: Path) -> None:
    lines = lines_of(EVICTION)
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_bytes(b"".join([*lines[:5], lines[4], *lines[7:], *lines[:2]]))
    stream = stream_of(said(damaged, "--json"))
    assert kinds_of(stream).items() >= {"seq_gap": 1, "duplicate_batch": 3}.items()
    assert "Batches 5 to 6 are missing" in said(damaged)

    again = [json.loads(line) for line in lines[:2]]
    for frame in again:
        ts, events, rank = msgspec.msgpack.decode(b64decode(frame["payload_b64"]))
        frame["payload_b64"] = b64encode(msgspec.msgpack.encode([ts + 60, events, rank])).decode()
    damaged.write_bytes(b"".join([*lines, *(json.dumps(frame).encode() + b"\n" for frame in again)]))
    stream = stream_of(said(damaged, "--json"))
    assert kinds_of(stream)["engine_restart"] == 1
    assert (stream["num_lives"], stream["first_seq"], stream["last_seq"], stream["num_batches"]) == (2, 0, 1, 27)
    assert "27 in 2 lives of the engine, the last of them 0 to 1" in said(damaged)


def test_a_stream_heard_from_its_middle_on_says_so(said: Say, tmp_path: Path) -> None:
    (tmp_path / "late.jsonl").write_bytes(b"".join(lines_of(EVICTION)[10:]))
    text = said(tmp_path / "late.jsonl")
    assert "info: joined_midstream, once" in text
    assert "  batches         15, 10 to 24\n" in text


def test_batches_after_the_one_asked_for_are_left_out_and_counted(said: Say) -> None:
    text = said(EVICTION, "--at", "9")
    assert "15 batches after number 9 left out.\n" in text
    assert "  batches         10, 0 to 9\n" in text


def test_ranks_that_share_one_count_miss_nothing(said: Say, tmp_path: Path) -> None:
    batches = [[float(seq), [{"type": "BlockStored", "block_hashes": [seq + 1], "token_ids": [0] * 4,
                              "block_size": 4}], seq % 2] for seq in range(6)]  # fmt: skip
    frames = [
        {"topic": "kv", "seq": seq, "payload_b64": b64encode(msgspec.msgpack.encode(batch)).decode()}
        for seq, batch in enumerate(batches)
    ]
    (tmp_path / "shared.jsonl").write_bytes(b"\n".join(written(*frames)))
    text = said(tmp_path / "shared.jsonl", "--json")
    assert [(stream_of(text, rank)["num_batches"], kinds_of(stream_of(text, rank))) for rank in (0, 1)] == [(3, {})] * 2


def test_events_of_tensorrt_llm_tell_capacity_and_no_time(said: Say, tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_bytes(b"\n".join(TRTLLM_EVENTS[:3]))
    text = said(tmp_path / "events.jsonl")
    assert "  capacity        101 blocks on GPU, 50 blocks on CPU\n" in text
    assert "  time            not observable: this dialect tells none\n" in text
    assert "  group           kind not told, window of 8,192 tokens, blocks of 32 tokens\n" in text


def test_a_list_of_events_over_many_lines_is_the_same_recording(said: Say, tmp_path: Path) -> None:
    lines, listed = tmp_path / "lines.jsonl", tmp_path / "list.json"
    lines.write_bytes(b"\n".join(TRTLLM_EVENTS))
    listed.write_text(json.dumps([json.loads(event) for event in TRTLLM_EVENTS], indent=2))
    assert json.loads(said(lines, "--json"))["files"][0]["streams"] == stream_list(said(listed, "--json"))


def stream_list(text: str) -> list[dict[str, Any]]:
    streams: list[dict[str, Any]] = json.loads(text)["files"][0]["streams"]
    return streams


def test_dynamos_workers_are_streams_and_its_times_count_from_its_start(said: Say, tmp_path: Path) -> None:
    other = written(dynamo({"stored": {"parent_hash": None, "blocks": [dynamo_block(1, 11)]}}, 0, 99, worker_id=8))
    (tmp_path / "events.jsonl").write_bytes(b"\n".join([*DYNAMO_LINES, *other]))
    text = said(tmp_path / "events.jsonl", "--json")
    assert [(stream["name"], stream["rank"]) for stream in stream_list(text)] == [("worker 7", 0), ("worker 8", 0)]
    first, second = stream_list(text)
    assert (first["began"], first["ended"], round(first["lasted_s"], 3)) == (None, None, 0.048)
    # How many tokens a block holds is not told, so that nobody knows how many there are.
    assert (second["media"][0]["certain"], second["media"][0]["tokens_certain"]) == (1, None)


def stored(*hashes: int, parent: int | None = None) -> dict[str, Any]:
    return {"type": "BlockStored", "block_hashes": list(hashes), "parent_block_hash": parent, "block_size": 4,
            "token_ids": [0] * 4 * len(hashes)}  # fmt: skip


def test_cases_are_streams_of_their_own_with_their_own_settings(said: Say, tmp_path: Path) -> None:
    removed = {"type": "BlockRemoved", "block_hashes": [1]}
    steps = [
        {"src": "e0", "rank": 0, "seq": 0, "ts": 1.0, "ev": [stored(1)]},
        {"src": "e0", "rank": 0, "seq": 1, "ts": 2.0, "ev": [stored(1), removed]},
        {"ctl": "silence", "seconds": 90},
    ]
    cases = [{"id": "X1", "steps": steps, "store_semantics": one} for one in ("copies", "reuse", "unknown")]
    (tmp_path / "cases.jsonl").write_bytes(b"\n".join(written(*cases)))
    assert "3 steps of cases left out that are no batches of events." in said(tmp_path / "cases.jsonl")
    streams = stream_list(said(tmp_path / "cases.jsonl", "--json"))
    assert [stream["name"] for stream in streams] == ["case X1, source 'e0'"] * 3
    names = ("certain", "maybe", "copies", "tokens_certain", "tokens_maybe")
    assert [[stream["media"][0][name] for name in names] for stream in streams] == [
        [1, 0, 1, 4, 0],
        [0, 0, 0, 0, 0],
        [0, 1, 1, 0, 4],
    ]
    assert "GPU         0       1        0      1       1  0 to 4\n" in said(tmp_path / "cases.jsonl")


def case_of(*batches: list[dict[str, Any]]) -> bytes:
    steps = [{"src": "e0", "rank": 0, "seq": seq, "ts": float(seq), "ev": batch} for seq, batch in enumerate(batches)]
    return written({"id": "X1", "steps": steps})[0]


def test_findings_are_counted_however_many_and_three_are_told(said: Say, tmp_path: Path) -> None:
    orphans = [stored(number, parent=number + 10_000) for number in range(1_500)]
    (tmp_path / "cases.jsonl").write_bytes(case_of(orphans))
    text = said(tmp_path / "cases.jsonl")
    assert "  findings        warning: orphan_parent, 1,500 times\n" in text
    assert text.count("which was never told of.") == 3


def test_blocks_that_are_cut_off_are_counted(said: Say, tmp_path: Path) -> None:
    branches = [stored(number, parent=1) for number in range(2, 152)]
    removed = {"type": "BlockRemoved", "block_hashes": [1]}
    (tmp_path / "cases.jsonl").write_bytes(case_of([stored(1), *branches], [removed]))
    text = said(tmp_path / "cases.jsonl")
    assert "info: unreachable_resident, once\n" in text
    assert "150 blocks cached on GPU can be reached by no prompt" in text
    assert "150 chains from 0 roots, the longest of 1 block; 150 pieces cut off" in text


def test_batches_that_overtook_each_other_are_put_in_order(said: Say, tmp_path: Path) -> None:
    lines = lines_of(EVICTION)
    lines[5], lines[6] = lines[6], lines[5]
    (tmp_path / "swapped.jsonl").write_bytes(b"".join(lines))
    assert stream_list(said(tmp_path / "swapped.jsonl", "--json")) == stream_list(said(EVICTION, "--json"))


def test_of_many_streams_the_first_are_told_in_words_and_all_in_json(said: Say, tmp_path: Path) -> None:
    frame = json.loads(lines_of(EVICTION)[0])
    frames = [{**frame, "topic": f"engine-{number}"} for number in range(70)]
    (tmp_path / "many.jsonl").write_bytes(b"\n".join(written(*frames)))
    assert "… and 6 more streams: --json tells of all.\n" in said(tmp_path / "many.jsonl")
    assert len(stream_list(said(tmp_path / "many.jsonl", "--json"))) == 70


def test_names_from_outside_command_no_terminal(said: Say, tmp_path: Path) -> None:
    event = {**stored(1), "medium": "\x1b[2J\x1b[31mGPU"}
    payload = b64encode(msgspec.msgpack.encode([1.0, [event], 0])).decode()
    frame = {"topic": "\x1b]0;mine\x07", "seq": 0, "payload_b64": payload}
    (tmp_path / "odd.jsonl").write_bytes(written(frame)[0])
    text = said(tmp_path / "odd.jsonl")
    assert "[31mGPU" in text
    assert all(character == "\n" or character.isprintable() for character in text)


def test_a_file_that_was_cut_off_is_read_as_far_as_it_goes(said: Say, tmp_path: Path) -> None:
    cut = tmp_path / "cut.gz"
    cut.write_bytes(EVICTION.read_bytes()[:4000])
    text = said(cut)
    assert "The file is cut off: what follows is up to its last whole line." in text
    assert 0 < stream_of(said(cut, "--json"))["num_batches"] < 25


def test_lines_that_are_none_are_left_out_and_counted(said: Say, tmp_path: Path) -> None:
    lines = lines_of(EVICTION)
    (tmp_path / "odd.jsonl").write_bytes(b"".join([*lines[:9], b"\xc1\xff rubbish\n", b'{"seq": 1}\n', *lines[9:]]))
    assert "27 lines, 2 of them unreadable" in said(tmp_path / "odd.jsonl").replace("\n  ", " ")


def test_a_payload_that_is_no_batch_is_told_and_not_taken_for_lost(said: Say, tmp_path: Path) -> None:
    lines = lines_of(EVICTION)
    lines[7] = json.dumps({**json.loads(lines[7]), "payload_b64": "wf8="}).encode() + b"\n"
    (tmp_path / "odd.jsonl").write_bytes(b"".join(lines))
    (stream,) = stream_list(said(tmp_path / "odd.jsonl", "--json"))
    assert (stream["rank"], stream["num_batches"]) == (0, 25)
    assert kinds_of(stream)["unknown_or_partial_event"] == 1
    assert "seq_gap" not in kinds_of(stream)


def test_binary_rubbish_is_no_recording(refused: Say, tmp_path: Path) -> None:
    (tmp_path / "rubbish").write_bytes(bytes(range(256)) * 400)
    assert "is no recording that kvxray reads" in refused(tmp_path / "rubbish")


def test_nothing_is_no_recording(refused: Say, tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "blank.gz").write_bytes(gzip.compress(b"\n \n"))
    assert "There is nothing in" in refused(tmp_path / "empty")
    assert "There is nothing in" in refused(tmp_path / "blank.gz")


def test_what_is_cut_before_its_first_line_says_so(refused: Say, tmp_path: Path) -> None:
    (tmp_path / "cut.gz").write_bytes(EVICTION.read_bytes()[:40])
    assert "begins like a gzipped file, and not one line of it can be unpacked" in refused(tmp_path / "cut.gz")


def test_folders_pipes_devices_and_what_is_not_there_are_refused_at_once(refused: Say, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "is a folder" in refused(tmp_path)
    assert "is no regular file" in refused(tmp_path / "pipe")
    assert "is no regular file" in refused("/dev/zero")
    assert "No such file" in refused(tmp_path / "missing")


@pytest.mark.parametrize("beginning", [b"", b'{"seq": 1, "topic": "", "payload_b64": "', b"["])
def test_a_line_without_an_end_costs_bounded_memory(beginning: bytes, refused: Say, tmp_path: Path) -> None:
    file = tmp_path / "endless"
    file.write_bytes(beginning)
    os.truncate(file, 100_000_000)
    tracemalloc.start()
    try:
        assert "is longer than the 33,554,432 bytes that are taken" in refused(file)
        assert tracemalloc.get_traced_memory()[1] < 3 * 33_554_432
    finally:
        tracemalloc.stop()


def test_a_list_without_an_end_is_refused(refused: Say, tmp_path: Path) -> None:
    (tmp_path / "list").write_bytes(b"[\n" * 3_000_000)
    assert "is one list of more than the 4,194,304 bytes" in refused(tmp_path / "list")


def test_two_kinds_of_recording_in_one_file_are_refused(refused: Say, tmp_path: Path) -> None:
    (tmp_path / "mixed").write_bytes(b"".join(lines_of(EVICTION)) + DYNAMO_LINES[0])
    assert "begins with frames of a ZeroMQ stream, and line 26 is of events as Dynamo records them" in refused(
        tmp_path / "mixed"
    )


def test_answers_of_a_replay_socket_are_named_as_such(refused: Say) -> None:
    assert "name its .frames.jsonl.gz file" in refused(CAPTURES / "vllm-0.32.0-eviction.replay.jsonl.gz")


def test_a_recording_without_one_batch_that_can_be_read_is_refused(refused: Say, tmp_path: Path) -> None:
    (tmp_path / "odd").write_bytes(b'{"seq": 1, "payload_b64": 7}\n')
    assert "can be read as frames of a ZeroMQ stream" in refused(tmp_path / "odd")


@pytest.mark.parametrize("number", ["-1", "x", "1.5", "9" * 30])
def test_a_number_that_no_batch_has_is_refused(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["inspect", str(EVICTION), "--at", number])
    assert ended.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
