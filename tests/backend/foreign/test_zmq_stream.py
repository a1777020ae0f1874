"""Real sockets: what an engine publishes arrives, whatever is lost on the way, and the engine never waits for us."""

from __future__ import annotations

import base64
import gzip
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zmq
from kvxray_backend.sources.foreign import zmq_line
from kvxray_backend.sources.foreign.batch_steps import Apply, GapOpened, GapRepaired, JoinedMidstream, Restarted
from kvxray_backend.sources.foreign.caps import MAX_PAYLOAD_BYTES
from kvxray_backend.sources.foreign.endpoint import Endpoint, of_ranks, parse_endpoint
from kvxray_backend.sources.foreign.event_batches import decode_batch
from kvxray_backend.sources.foreign.hand_over import Dropped, HandOver, Heard, Item, Publisher, ReplayEnded
from kvxray_backend.sources.foreign.ordered_stream import OrderedStream, Origin
from kvxray_backend.sources.foreign.replay_turns import ReplayTurns
from kvxray_backend.sources.foreign.zmq_frames import BadFrames, End, Told, read_live, read_reply, replay_request
from kvxray_backend.sources.foreign.zmq_line import MAX_FRAME_BYTES
from kvxray_backend.sources.foreign.zmq_stream import ZmqStream
from kvxray_engine.errors import UserError

from tests.backend.foreign.engine_rig import EngineRig, payload_of

DATA = Path(__file__).parents[2] / "data"
PATIENCE_S = 30.0
STALL_S = float(os.environ.get("KVXRAY_TEST_STALL_SECONDS", "5"))


@contextmanager
def hearing(*lines: tuple[Endpoint, Endpoint | None], **options: object) -> Iterator[ZmqStream]:
    stream = ZmqStream(lines, **options)  # type: ignore[arg-type]
    stream.start()
    try:
        yield stream
    finally:
        stream.close()


def line_to(rig: EngineRig, *, replay: bool = True) -> tuple[Endpoint, Endpoint | None]:
    return parse_endpoint(rig.events), parse_endpoint(rig.replay) if replay else None


def take_until(stream: ZmqStream, is_enough: Callable[[list[Item]], bool]) -> list[Item]:
    items: list[Item] = []
    deadline = time.monotonic() + PATIENCE_S
    while not is_enough(items):
        assert time.monotonic() < deadline, f"after {len(items)} items nothing more came"
        items += stream.take(0.1)
    return items


def take(stream: ZmqStream, count: int) -> list[Item]:
    return take_until(stream, lambda items: len(items) >= count)


class Followed:
    """What an ordered stream said, in order."""

    def __init__(self, stream: ZmqStream) -> None:
        self.ordered = OrderedStream(stream, decode_batch, ReplayTurns())
        self.steps: list[tuple[Origin, object]] = []

    def until(self, is_enough: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_enough():
            assert time.monotonic() < deadline, f"it stays at {self.of(GapOpened)} and {len(self.applied)} applied"
            self.steps += self.ordered.next_steps(0.1)

    def of(self, kind: type) -> list:
        return [step for _, step in self.steps if isinstance(step, kind)]

    @property
    def applied(self) -> list[int]:
        return [step.seq for step in self.of(Apply)]


def test_batches_arrive_as_they_were_sent() -> None:
    with EngineRig() as rig, hearing(line_to(rig)) as stream:
        rig.wait_for_subscriber()
        rig.publish(3)
        items = take(stream, 3)
        assert [(item.seq, item.payload) for item in items if isinstance(item, Heard)] == [
            (seq, payload_of(seq)) for seq in range(3)
        ]
        assert {item.publisher for item in items} == {Publisher(0, b"kv-events")}
        deadline = time.monotonic() + PATIENCE_S
        while stream.num_connections != [1]:
            assert time.monotonic() < deadline, "nobody counted the connection"
            time.sleep(0.01)


def test_an_engine_that_dials_out_is_listened_for() -> None:
    with (
        hearing((parse_endpoint("tcp://127.0.0.1:0", bind=True), None)) as stream,
        EngineRig(stream.addresses[0], dials=True) as rig,
    ):
        rig.wait_for_subscriber()
        rig.publish(2)
        assert [item.seq for item in take(stream, 2) if isinstance(item, Heard)] == [0, 1]


def test_a_name_is_dialled_where_the_engine_listens() -> None:
    with EngineRig() as rig:
        by_name = parse_endpoint(rig.events.replace("127.0.0.1", "localhost"))
        with hearing((by_name, None)) as stream:
            rig.wait_for_subscriber()
            rig.publish(1)
            take(stream, 1)


def test_engines_that_dial_one_address_are_told_apart_by_topic() -> None:
    with hearing((parse_endpoint("tcp://127.0.0.1:0", bind=True), None), topic_prefix=b"kv@") as stream:
        address = stream.addresses[0]
        with (
            EngineRig(address, dials=True, topic=b"kv@pod-a@m") as one,
            EngineRig(address, dials=True, topic=b"kv@pod-b@m") as two,
            EngineRig(address, dials=True, topic=b"load") as other,
        ):
            for rig in (one, two, other):
                rig.wait_for_subscriber()
            other.publish(1)
            one.publish(2)
            two.publish(1)
            items = take(stream, 3)
    told = [(item.publisher.topic, item.seq) for item in items if isinstance(item, Heard)]
    assert sorted(told) == [(b"kv@pod-a@m", 0), (b"kv@pod-a@m", 1), (b"kv@pod-b@m", 0)]


def test_an_engine_may_be_in_the_same_process_or_behind_a_path(tmp_path: Path) -> None:
    with (
        EngineRig(f"ipc://{tmp_path}/events", replay=f"ipc://{tmp_path}/replay") as rig,
        hearing(line_to(rig)) as stream,
    ):
        rig.wait_for_subscriber()
        rig.publish(1)
        take(stream, 1)
        stream.ask_replay(Publisher(0, b"kv-events"), 0)
        assert isinstance(take(stream, 2)[-1], ReplayEnded)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    pub = context.socket(zmq.XPUB)
    pub.bind("inproc://kv-events_dp1")
    endpoint = of_ranks(parse_endpoint("inproc://kv-events"), 2)[1]
    with hearing((endpoint, None), context=context) as stream:
        assert pub.recv() == b"\x01"
        pub.send_multipart([b"", bytes(8), payload_of(0)])
        take(stream, 1)
    context.destroy(linger=0)


@pytest.mark.parametrize("old_framing", [True, False])
def test_replay_is_understood_in_both_framings(old_framing: bool) -> None:
    with EngineRig(old_framing=old_framing) as rig, hearing(line_to(rig)) as stream:
        rig.publish(5, is_heard=False)
        publisher = Publisher(0, rig.topic)
        stream.ask_replay(publisher, 2)
        items = take(stream, 4)
        assert [(item.publisher, item.seq, item.replay_start) for item in items if isinstance(item, Heard)] == [
            (publisher, seq, 2) for seq in (2, 3, 4)
        ]
        assert items[-1] == ReplayEnded(publisher, 2, 0)


@pytest.mark.parametrize("old_framing", [True, False])
def test_what_the_wire_lost_is_repaired_by_replay_in_order(old_framing: bool) -> None:
    with EngineRig(old_framing=old_framing) as rig, hearing(line_to(rig)) as stream:
        rig.wait_for_subscriber()
        followed = Followed(stream)
        rig.publish(10)
        rig.publish(7, is_heard=False)
        rig.publish(3)
        followed.until(lambda: len(followed.applied) == 20)
        assert followed.applied == list(range(20))
        assert [type(step) for _, step in followed.steps] == [Apply] * 20


def test_who_joins_midstream_has_all_that_the_buffer_holds_and_says_from_where() -> None:
    with EngineRig(buffer_steps=5) as rig, hearing(line_to(rig)) as stream:
        rig.publish(12, is_heard=False)
        rig.wait_for_subscriber()
        followed = Followed(stream)
        rig.publish(1)
        followed.until(lambda: len(followed.applied) == 5)
        assert followed.applied == [8, 9, 10, 11, 12]
        assert followed.of(JoinedMidstream) == [JoinedMidstream(8)]


def test_an_answer_that_begins_later_than_asked_tells_what_is_lost() -> None:
    with EngineRig(buffer_steps=4) as rig, hearing(line_to(rig)) as stream:
        rig.wait_for_subscriber()
        followed = Followed(stream)
        rig.publish(1)
        followed.until(lambda: followed.applied == [0])
        rig.publish(9, is_heard=False)
        rig.publish(1)
        followed.until(lambda: len(followed.applied) == 5)
        assert followed.of(GapOpened) == [GapOpened(1, 6)]
        assert followed.applied == [0, 7, 8, 9, 10]


def test_an_answer_of_nothing_but_its_end_tells_the_gap() -> None:
    with EngineRig(buffer_steps=0) as rig, hearing(line_to(rig)) as stream:
        rig.wait_for_subscriber()
        followed = Followed(stream)
        rig.publish(1)
        rig.publish(1, is_heard=False)
        rig.publish(1)
        followed.until(lambda: followed.applied == [0, 2])
        assert followed.of(GapOpened) == [GapOpened(1, 1)]


def test_a_replay_socket_that_never_answers_does_not_hold_the_stream_up() -> None:
    with EngineRig(answers=False) as rig, hearing(line_to(rig)) as stream:
        rig.wait_for_subscriber()
        followed = Followed(stream)
        rig.publish(1)
        rig.publish(1, is_heard=False)
        rig.publish(2)
        followed.until(lambda: followed.applied == [0, 2, 3])
        assert followed.of(GapOpened) == [GapOpened(1, 1)]
        assert rig.num_requests == 1


def test_ranks_are_separate_publishers_and_have_ports_of_their_own() -> None:
    with EngineRig() as first:
        port = int(first.events.rpartition(":")[2])
        try:
            second = EngineRig(f"tcp://127.0.0.1:{port + 1}")
        except zmq.ZMQError:
            pytest.skip("the port beside a free one is taken")
        endpoints = of_ranks(parse_endpoint(first.events), 2)
        with second, hearing(*((endpoint, None) for endpoint in endpoints)) as stream:
            first.wait_for_subscriber()
            second.wait_for_subscriber()
            first.publish(1)
            second.publish(1)
            items = take(stream, 2)
            assert {item.publisher.line for item in items} == {0, 1}


def test_ranks_that_share_a_stream_are_numbered_each_for_itself() -> None:
    with EngineRig() as rig, hearing(line_to(rig, replay=False)) as stream:
        rig.wait_for_subscriber()
        followed = Followed(stream)
        for seq in range(2):
            for rank in range(2):
                rig.send(b"kv-events", seq.to_bytes(8, "big"), payload_of(seq, rank=rank))
        followed.until(lambda: len(followed.applied) == 4)
        assert [type(step) for _, step in followed.steps] == [Apply] * 4
        assert [(origin.rank, step.seq) for origin, step in followed.steps if isinstance(step, Apply)] == [
            (0, 0), (1, 0), (0, 1), (1, 1)
        ]  # fmt: skip
        assert [origin.rank for origin in followed.ordered.origins] == [0, 1]


def test_an_engine_that_comes_back_is_heard_again_as_a_new_life() -> None:
    with EngineRig() as rig, hearing(line_to(rig)) as stream:
        rig.wait_for_subscriber()
        followed = Followed(stream)
        rig.publish(3)
        followed.until(lambda: followed.applied == [0, 1, 2])
        events, replay = rig.events, rig.replay
        rig.__exit__()
        with EngineRig(events, replay=replay) as again:
            again.wait_for_subscriber()
            again.publish(payloads=[payload_of(seq, life=1) for seq in range(2)])
            followed.until(lambda: followed.applied == [0, 1, 2, 0, 1])
            assert followed.of(Restarted) == [Restarted(0, 2)]


MALFORMED = [
    [b"kv-events"],
    [b"kv-events", bytes(8)],
    [b"kv-events", bytes(7), b"x"],
    [b"kv-events", bytes(9), b"x"],
    [b"kv-events", b"", b"x"],
    [b"kv-events", bytes(8), b"x", b"y"],
    [b"kv-events", *[b"x"] * 500],
    [b"kv-events" + bytes(2000), bytes(8), b"x"],
    [b"kv-events", b"\xff" * 8, b"x"],
    [b"kv-events", bytes(8), bytes(MAX_PAYLOAD_BYTES + 1)],
]


def test_malformed_messages_cost_a_counter_each_and_nothing_else() -> None:
    with EngineRig() as rig, hearing(line_to(rig)) as stream:
        rig.wait_for_subscriber()
        for frames in MALFORMED:
            rig.send(*frames)
        rig.publish(1)
        assert [item.seq for item in take(stream, 1) if isinstance(item, Heard)] == [0]
        assert sum(stream.malformed.values()) == len(MALFORMED)
        assert all(reason.endswith(".") for reason in stream.malformed)


def test_a_frame_that_breaks_the_connection_does_not_end_the_hearing() -> None:
    with EngineRig() as rig, hearing(line_to(rig)) as stream:
        rig.wait_for_subscriber()
        rig.send(b"kv-events", bytes(8), bytes(MAX_FRAME_BYTES + 1))
        rig.wait_for_subscriber()
        rig.publish(1)
        assert [item.seq for item in take(stream, 1) if isinstance(item, Heard)] == [0]


def test_who_spoke_no_zeromq_at_first_is_dialled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zmq_line, "REDIAL_NS", 100_000_000)
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        address = f"tcp://127.0.0.1:{stranger.getsockname()[1]}"
        with hearing((parse_endpoint(address), None)) as stream:
            connection, _ = stranger.accept()
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n" * 10)
            connection.close()
            stranger.close()
            with EngineRig(address) as rig:
                rig.wait_for_subscriber()
                rig.publish(1)
                assert [item.seq for item in take(stream, 1) if isinstance(item, Heard)] == [0]


def test_a_line_that_cannot_be_dialled_anew_is_tried_again_and_can_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zmq_line, "REDIAL_NS", 100_000_000)
    tries = 0
    make_socket = zmq_line.Line._socket

    def no_socket_at_first(line: zmq_line.Line, kind: int) -> zmq.Socket[bytes]:
        nonlocal tries
        tries += 1
        if tries <= 2:
            raise zmq.ZMQError(zmq.EMFILE)
        return make_socket(line, kind)

    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{nobody.getsockname()[1]}"
    with hearing((parse_endpoint(address), None)) as stream:
        monkeypatch.setattr(zmq_line.Line, "_socket", no_socket_at_first)
        deadline = time.monotonic() + PATIENCE_S
        while tries <= 2:
            assert time.monotonic() < deadline, "it was not dialled anew"
            time.sleep(0.01)
        with EngineRig(address) as rig:
            rig.wait_for_subscriber()
            rig.publish(1)
            assert [item.seq for item in take(stream, 1) if isinstance(item, Heard)] == [0]


def test_batches_that_nobody_can_decode_are_counted_and_are_not_gaps() -> None:
    with EngineRig() as rig, hearing(line_to(rig)) as stream:
        rig.wait_for_subscriber()
        followed = Followed(stream)
        rig.publish(payloads=[payload_of(0), b"\xc1 no msgpack", payload_of(2)])
        followed.until(lambda: followed.applied == [0, 1, 2])
        assert followed.ordered.num_bad == 1
        assert followed.of(GapOpened) == []


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


def test_a_consumer_that_stalls_never_makes_the_engine_wait_and_what_it_missed_is_told_or_repaired() -> None:
    """Nobody takes anything for 5 s (`KVXRAY_TEST_STALL_SECONDS`: or longer) while the engine sends all it can; each
    `send` of the rig raises where it would have to wait.
    """
    with EngineRig(hwm=1000) as rig, hearing(line_to(rig), max_bytes=2 << 20) as stream:
        rig.wait_for_subscriber()
        payload = bytes(payload_of(0, num_tokens=256))
        rig.publish(payloads=[payload_of(0)])
        until = time.monotonic() + STALL_S
        count = 1
        while time.monotonic() < until:
            rig.publish(payloads=[payload_of(count, num_tokens=256)])
            count += 1
        assert len(payload) * count > 2 << 20, "too little was sent to tell anything"
        first = rig.next_seq
        followed = Followed(stream)

        def has_caught_up() -> bool:
            rig.publish(1)  # the wire may lose any of them
            return max(followed.applied, default=0) >= first

        followed.until(has_caught_up)
        last = max(followed.applied)
        missing = {seq for gap in followed.of(GapOpened) for seq in range(gap.first, gap.last + 1)}
        missing -= {gap.first for gap in followed.of(GapRepaired)}
        assert missing | set(followed.applied) == set(range(last + 1))
        assert not missing & set(followed.applied)
        assert len(followed.applied) == len(set(followed.applied))
        print(
            f"stalled {STALL_S:g} s: {count} batches sent, longest send {rig.longest_send_s * 1e3:.1f} ms, "
            f"{len(followed.applied)} applied, {len(missing)} told missing, {stream.num_dropped} did not fit"
        )


def heard(seq: int, num_bytes: int = 100, replay_start: int | None = None) -> Heard:
    return Heard(Publisher(0, b"t"), seq, bytes(num_bytes), 0, replay_start)


def test_what_does_not_fit_is_told_where_it_would_have_stood() -> None:
    hand_over = HandOver(1000)
    assert [hand_over.put(heard(seq)) for seq in range(4)] == [True, True, False, False]
    hand_over.check_integrity()
    assert hand_over.take(0, 1) == [heard(0)]
    assert hand_over.put(heard(4))
    hand_over.check_integrity()
    assert hand_over.take(0, 10) == [heard(1), Dropped(Publisher(0, b"t"), 2, 3), heard(4)]
    hand_over.check_integrity()
    assert hand_over.num_dropped == 2


def test_a_long_answer_does_not_push_out_what_is_heard_live() -> None:
    hand_over = HandOver(1000)
    assert [hand_over.put(heard(seq, replay_start=0)) for seq in range(3)] == [True, True, False]
    assert hand_over.put(heard(9))
    hand_over.check_integrity()
    assert [item for item in hand_over.take(0, 10) if isinstance(item, Dropped)] == []


def test_an_endpoint_says_who_dials() -> None:
    assert parse_endpoint("tcp://10.0.0.7:5557") == Endpoint("tcp://10.0.0.7:5557", False)
    assert parse_endpoint("tcp://[fe80::1%eth0]:5557") == Endpoint("tcp://[fe80::1%eth0]:5557", False)
    for wildcard in ("tcp://*:5557", "tcp://0.0.0.0:5557", "tcp://[::]:5557"):
        assert parse_endpoint(wildcard).is_bound
    assert not parse_endpoint("ipc:///run/kv").is_bound
    assert parse_endpoint("ipc:///run/kv", bind=True).is_bound


def test_ranks_have_the_addresses_that_engines_give_them() -> None:
    assert [endpoint.address for endpoint in of_ranks(parse_endpoint("tcp://h:5557"), 3)] == [
        "tcp://h:5557", "tcp://h:5558", "tcp://h:5559"
    ]  # fmt: skip
    assert [endpoint.address for endpoint in of_ranks(parse_endpoint("inproc://kv"), 2)] == [
        "inproc://kv", "inproc://kv_dp1"
    ]  # fmt: skip
    assert of_ranks(parse_endpoint("ipc:///kv"), 1) == [Endpoint("ipc:///kv")]


@pytest.mark.parametrize(
    "text", ["", "host:5557", "tcp://host", "tcp://:5557", "tcp://host:0", "tcp://host:65536", "tcp://a b:1", "udp://h:1",
             "tcp://host:5557/x", "ipc://", "tcp://host:123456", "http://host:80"]
)  # fmt: skip
def test_an_endpoint_that_makes_no_sense_is_one_sentence(text: str) -> None:
    with pytest.raises(UserError) as error:
        parse_endpoint(text)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "num_ranks"),
    [("tcp://h:5557", 0), ("tcp://h:5557", 1025), ("tcp://h:65530", 7), ("ipc:///kv", 2), ("tcp://*:0", 2)],
)
def test_ranks_that_cannot_have_an_address_are_one_sentence(text: str, num_ranks: int) -> None:
    with pytest.raises(UserError):
        of_ranks(parse_endpoint(text), num_ranks)


def test_an_address_that_is_taken_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        endpoint = parse_endpoint(f"tcp://127.0.0.1:{taken.getsockname()[1]}", bind=True)
        with pytest.raises(UserError, match="Cannot listen at"):
            ZmqStream([(parse_endpoint("tcp://127.0.0.1:1"), None), (endpoint, None)])
