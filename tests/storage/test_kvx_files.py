"""What comes from outside as a `.kvx` file: nothing else is taken for one, and nothing in it costs more than it may."""

from __future__ import annotations

import os
import random

import msgspec
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from kvxray_engine.stream import snapshot
from kvxray_storage import history
from kvxray_storage.bookmarks import add_bookmark
from kvxray_storage.database import open_database
from kvxray_storage.event_log import EventLog
from kvxray_storage.exchange.items import Framed, Told, read_items
from kvxray_storage.exchange.kvx_check import check_file
from kvxray_storage.exchange.kvx_export import export_kvx
from kvxray_storage.exchange.records import BadFile, EpochHead, Frame, Messages
from kvxray_storage.time_travel import state_at

from benchmarks.measuring.model_engine import ModelEngine
from tests.storage.kvx_files import (
    NOW_NS,
    any_finding,
    import_into,
    inside,
    refused_or_read,
    sections_of,
    stretch_of,
    write_sections,
)
from tests.storage.kvx_mutations import CLAIMS, mutate
from tests.storage.made_up_history import MadeUpHistory


@pytest.fixture(scope="module")
def small_file(tmp_path_factory):
    """A file with every kind of section in it."""
    folder = tmp_path_factory.mktemp("small")
    database = open_database(f"sqlite:///{folder}/kvxray.db")
    made = MadeUpHistory(ModelEngine(32, rows=16, seed=4, seldom=1.2))
    made.snapshot()
    made.steps(12)
    made.steps(1, lost=True)
    made.snapshot()
    made.steps(6)
    with EventLog(database, chunk_events=40) as log:
        key = made.store(log)
    add_bookmark(database, "engine", key.epoch, 20, 7, "look", 8)
    path = folder / "small.kvx"
    export_kvx(database, [stretch_of(database, key)], path, NOW_NS)
    database.close()
    return path


@given(at=st.integers(0, 2**20), value=st.integers(0, 255))
@settings(max_examples=150, deadline=None)
def test_a_changed_byte_is_found(small_file, tmp_path_factory, at, value):
    data = bytearray(small_file.read_bytes())
    at %= len(data)
    if data[at] == value:
        return
    data[at] = value
    path = tmp_path_factory.getbasetemp() / "changed.kvx"
    path.write_bytes(data)
    assert refused_or_read(path) is None


@given(size=st.integers(0, 2**20))
@settings(max_examples=60, deadline=None)
def test_a_file_that_ends_early_is_found(small_file, tmp_path_factory, size):
    data = small_file.read_bytes()
    path = tmp_path_factory.getbasetemp() / "short.kvx"
    path.write_bytes(data[: size % len(data)])
    assert refused_or_read(path) is None


@given(seed=st.integers(0, 10**6))
@settings(max_examples=300, deadline=None)
def test_whatever_a_file_says_is_refused_in_one_sentence_or_can_be_stored_and_read(small_file, tmp_path_factory, seed):
    path = tmp_path_factory.getbasetemp() / "made.kvx"
    write_sections(path, mutate(sections_of(small_file), random.Random(seed)))
    # To store each that can be would take half a minute.
    if refused_or_read(path) is not None and seed % 8 == 0:
        store_and_read(path, tmp_path_factory.getbasetemp() / "made.db")


def store_and_read(path, place):
    place.unlink(missing_ok=True)
    database = open_database(f"sqlite:///{place}")
    import_into(database, path, name="made")
    for epoch in history.epochs(database, "made"):
        if epoch.last_seq is not None:
            state_at(database, epoch.key, epoch.last_seq)
            history.events(database, epoch.key, 0, 10**6)
    database.check_integrity()
    database.close()


def test_a_message_of_another_engine_is_refused(small_file, tmp_path):
    sections = sections_of(small_file)
    head = next(msgspec.msgpack.decode(data, type=EpochHead) for number, data in sections if number == 2)
    path = tmp_path / "other.kvx"
    changed = msgspec.msgpack.encode(msgspec.structs.replace(head, incarnation="another"))
    write_sections(path, [(number, changed if number == 2 else data) for number, data in sections])
    with pytest.raises(BadFile, match="is not of its epoch"):
        check_file(path, any_finding)


def test_events_that_contradict_the_state_they_follow_are_refused(small_file, tmp_path):
    sections = sections_of(small_file)
    kinds = [number for number, _ in sections]
    path = tmp_path / "contradiction.kvx"
    without_frame = [one for at, one in enumerate(sections) if at != kinds.index(3)]
    write_sections(path, without_frame)
    with pytest.raises(BadFile, match="does not begin with a state"):
        check_file(path, any_finding)


def test_no_other_file_is_taken_for_one(tmp_path, small_file):
    for data, reason in (
        (b"", "does not begin like"),
        (b"PAR1" + b"\0" * 100, "does not begin like"),
        (b"KVXF\x02\0\0\0", "is of version 2, and this kvxray reads 1"),
        (b"KVXF\x01\0\0\0", "ends early"),
        (small_file.read_bytes() + b"\0", "its end does not fit"),
    ):
        path = tmp_path / "no.kvx"
        path.write_bytes(data)
        with pytest.raises(BadFile, match=reason):
            check_file(path, any_finding)


def test_the_small_file_has_what_the_mutations_are_about(small_file):
    kinds = {type(item) for item in read_items(small_file)}
    assert len(kinds) >= 7
    assert {Framed, EpochHead} <= kinds
    assert Messages not in kinds  # unpacked


def refusal(path, sections):
    write_sections(path, sections)
    with pytest.raises(BadFile) as refused:
        check_file(path, any_finding)
    return str(refused.value)


def changed(at, value):
    """For `inside`: the field at a place in what each section says, or deeper."""

    def change(section):
        *path, last = at
        for step in path:
            section = section[step]
        section[last] = value

    return change


HEAD, FRAME, MESSAGES, ROLLUPS, BOOKMARKS = 2, 3, 4, 6, 8


@pytest.mark.parametrize(("field", "value"), [("num_blocks", 33), ("block_size", 32), ("model", "another")])
def test_an_epoch_that_says_another_source_than_its_first_state_is_refused(small_file, tmp_path, field, value):
    def change(section):
        section[4] = msgspec.json.encode({**msgspec.json.decode(section[4]), field: value}).decode()

    told = refusal(tmp_path / "other.kvx", inside(small_file, HEAD, change))
    assert told == "an epoch in it does not begin with the source that it says"


@pytest.mark.parametrize(("at", "value"), [(0, "another"), (3, "another")])
def test_a_state_of_another_engine_is_refused(small_file, tmp_path, at, value):
    told = refusal(tmp_path / "other.kvx", inside(small_file, HEAD, changed([at], value)))
    assert told == "a state in it is not of its epoch"


def test_a_state_of_another_pool_than_the_events_before_it_is_refused(small_file, tmp_path):
    begin = [item for item in read_items(small_file) if isinstance(item, Framed | Told)][:2]
    state = begin[0].state
    for message in begin[1].messages:
        state.apply(message)
    state.descriptor = msgspec.structs.replace(state.descriptor, block_size=2 * state.descriptor.block_size)
    frame = Frame(state.next_seq, state.next_wire_seq, state.t_ns, snapshot.dump(state))
    # Head, epoch, state, events; and a state that they do not make.
    told = refusal(tmp_path / "other.kvx", [*sections_of(small_file)[:4], (FRAME, msgspec.msgpack.encode(frame))])
    assert told == "a state in it is of another source than the events before it"


@pytest.mark.parametrize(
    ("number", "at", "value"),
    [
        (HEAD, [0], "a\x1b[2J"),
        (HEAD, [3], "life\0"),
        (HEAD, [1], {f"label {one}": "" for one in range(1_000)}),
        (HEAD, [5], 2**63),
        (BOOKMARKS, [0, 0, 0], "../../api"),
        (BOOKMARKS, [0, 0, 5], "x" * 501),
        (BOOKMARKS, [0, 0, 5], "no\0te"),
        (BOOKMARKS, [0, 0, 4], -1),
        (ROLLUPS, [2, 0, 0], 2**61),
        (ROLLUPS, [2, 0, 0], -60),
        (ROLLUPS, [2, 0, 1], [None] * 1_000),
        (ROLLUPS, [2], [[0, []]] * 10_001),
        (MESSAGES, [0], CLAIMS),
        (MESSAGES, [0], zstandard.compress(b"\xdd\x05\xf5\xe1\x00" + b"\xc4\x00" * 100)),
        (MESSAGES, [0], zstandard.compress(msgspec.msgpack.encode([b""] * 20_000))),
    ],
)
def test_what_is_beyond_all_measure_is_refused_before_room_is_made_for_it(small_file, tmp_path, number, at, value):
    assert refusal(tmp_path / "beyond.kvx", inside(small_file, number, changed(at, value)))


def test_a_state_that_claims_a_terabyte_is_refused(small_file, tmp_path):
    def change(section):
        state = section[3]
        magic, version, head_size, _ = snapshot._PREFIX.unpack_from(state)
        begin = snapshot._PREFIX.size + 4
        prefix = snapshot._PREFIX.pack(magic, version, head_size, len(CLAIMS))
        section[3] = snapshot.sealed(prefix, state[begin : begin + head_size] + CLAIMS)

    told = refusal(tmp_path / "claims.kvx", inside(small_file, FRAME, change))
    assert "have another size than its head says" in told


def test_a_part_longer_than_its_kind_needs_is_not_even_read(small_file, tmp_path):
    sections = sections_of(small_file)
    sections[1] = HEAD, bytes(300_000)
    assert refusal(tmp_path / "long.kvx", sections) == "a part of it is longer than kvxray reads at once"


def test_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.kvx")
    with pytest.raises(BadFile, match="a device or a pipe"):
        check_file(tmp_path / "pipe.kvx", any_finding)
