"""Publisher and subscriber over real sockets: events, heartbeats, replay, snapshots, and drops that are counted."""

from __future__ import annotations

import os
import socketserver
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import zmq
from kvxray_engine.errors import UserError
from kvxray_engine.stream import snapshot
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.codec import MAX_PAYLOAD_BYTES, decode
from kvxray_engine.stream.handover import Handover
from kvxray_engine.stream.publisher import Publisher
from kvxray_engine.stream.subscriber import Published, Received, Replayed, ReplayEnded, SnapshotAnswered, Subscriber

from tests.engine.stream.scripted_pool import ScriptedPool, descriptor

NUM_BLOCKS = 32
ANYWHERE = "tcp://127.0.0.1:*"


@pytest.fixture
def pool() -> ScriptedPool:
    return ScriptedPool(NUM_BLOCKS, seed=1)


@pytest.fixture
def publisher(pool: ScriptedPool) -> Iterator[Publisher]:
    with Publisher(pool.recorder, descriptor(NUM_BLOCKS), "demo", ANYWHERE, ANYWHERE, heartbeat_s=0.05) as started:
        yield started


@pytest.fixture
def subscriber(publisher: Publisher) -> Iterator[Subscriber]:
    with Subscriber(publisher.events_address, publisher.replay_address) as connected:
        wait_for(connected, lambda got: any(isinstance(one, Published) for one in got))
        yield connected


def wait_for(subscriber: Subscriber, enough: Callable[[list[Received]], bool], within_s: float = 60) -> list[Received]:
    received: list[Received] = []
    deadline = time.monotonic() + within_s
    while not enough(received):
        assert time.monotonic() < deadline, f"only {len(received)} received"
        received += subscriber.receive(0.05)
    return received


def snapshot_of(subscriber: Subscriber) -> BlockMap:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        subscriber.request_snapshot()
        got = wait_for(subscriber, lambda all_: any(isinstance(one, SnapshotAnswered) for one in all_))
        (answer,) = [one for one in got if isinstance(one, SnapshotAnswered)]
        if answer.data is not None:
            return snapshot.load(answer.data)
    raise AssertionError("no snapshot came")


def test_events_arrive_in_order_and_fold_to_the_engine_s_state(pool: ScriptedPool, subscriber: Subscriber) -> None:
    for _ in range(50):
        pool.run_step()
    fold = BlockMap(descriptor(NUM_BLOCKS))

    def folded_all(got: list[Received]) -> bool:
        return sum(isinstance(one, Published) and decode(one.payload).header.type == "events" for one in got) == 50

    for one in wait_for(subscriber, folded_all):
        assert isinstance(one, Published)
        message = decode(one.payload)
        if message.header.type == "events":
            assert message.header.wire_seq == fold.next_wire_seq
            fold.apply(message)
    assert fold.ref.tolist() == pool.ref
    fold.check_integrity()


def test_heartbeats_tell_the_last_number_and_what_the_source_is(pool: ScriptedPool, subscriber: Subscriber) -> None:
    pool.run_step()

    def told(got: list[Received]) -> bool:
        headers = [decode(one.payload).header for one in got if isinstance(one, Published)]
        return any(one.type == "heartbeat" and one.wire_seq == 0 and one.descriptor for one in headers)

    wait_for(subscriber, told)


def test_what_was_missed_is_replayed(pool: ScriptedPool, subscriber: Subscriber) -> None:
    for _ in range(20):
        pool.run_step()
    subscriber.receive(0.2)
    subscriber.request_replay(5, 9)
    got = wait_for(subscriber, lambda all_: any(isinstance(one, ReplayEnded) for one in all_))
    numbers = [decode(one.payload).header.wire_seq for one in got if isinstance(one, Replayed)]
    assert numbers == [5, 6, 7, 8, 9]


def test_a_snapshot_is_the_engine_s_state(pool: ScriptedPool, subscriber: Subscriber) -> None:
    for _ in range(30):
        pool.run_step()
    state = snapshot_of(subscriber)
    assert state.ref.tolist() == pool.ref
    assert state.next_wire_seq == pool.recorder.next_wire_seq
    state.check_integrity()


def test_after_drops_at_the_recorder_the_snapshot_comes_from_the_engine_s_lists() -> None:
    pool = ScriptedPool(NUM_BLOCKS, seed=2, handover=Handover(max_messages=2))
    with Publisher(pool.recorder, descriptor(NUM_BLOCKS), "demo", ANYWHERE, ANYWHERE) as publisher:
        for _ in range(400):
            pool.run_step()
        assert pool.recorder.lost > 0, "the queue was meant to overflow"
        deadline = time.monotonic() + 60
        with Subscriber(publisher.events_address, publisher.replay_address) as subscriber:
            while time.monotonic() < deadline:
                pool.run_step()
                time.sleep(0.02)
                state = snapshot_of(subscriber)
                if state.next_wire_seq == pool.recorder.next_wire_seq:
                    break
            assert state.ref.tolist() == pool.ref
            assert state.slots.tolist() == pool.slots
            assert state.lost == pool.recorder.lost
            state.check_integrity()


def test_a_port_in_use_is_one_sentence(publisher: Publisher, pool: ScriptedPool) -> None:
    with pytest.raises(UserError, match="choose another port") as refused:
        Publisher(pool.recorder, descriptor(NUM_BLOCKS), "demo", publisher.events_address, ANYWHERE)
    assert str(refused.value).count(publisher.events_address) == 1


def test_an_address_that_makes_no_sense_is_one_sentence() -> None:
    with pytest.raises(UserError, match="Write it like tcp://host:5570"):
        Subscriber("nonsense")


def test_strange_requests_are_ignored(publisher: Publisher, subscriber: Subscriber) -> None:
    for frames in ([b"no delimiter"], [b"", b"unknown"], [b"", b"replay", b"x", b"y"], [b"", b"replay"]):
        subscriber._dealer.send_multipart(frames)  # type: ignore[union-attr]
    assert snapshot_of(subscriber).num_blocks == NUM_BLOCKS


def test_a_frame_above_the_limit_does_not_make_the_subscriber_deaf() -> None:
    with zmq.Context() as context, context.socket(zmq.PUB) as first:
        first.setsockopt(zmq.LINGER, 0)
        port = first.bind_to_random_port("tcp://127.0.0.1")
        with Subscriber(f"tcp://127.0.0.1:{port}") as subscriber:
            _publish_until_heard(first, subscriber)
            first.send_multipart([b"", bytes(MAX_PAYLOAD_BYTES + 1)])
            _publish_until_heard(first, subscriber, b"after")


def test_something_else_at_the_address_does_not_make_the_subscriber_deaf() -> None:
    class Nonsense(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(os.urandom(4096))

    with socketserver.TCPServer(("127.0.0.1", 0), Nonsense) as server:
        port = server.server_address[1]
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        subscriber = Subscriber(f"tcp://127.0.0.1:{port}", f"tcp://127.0.0.1:{port}")
        thread.join()
    with subscriber, zmq.Context() as context, context.socket(zmq.PUB) as good:
        good.setsockopt(zmq.LINGER, 0)
        _bind_when_free(good, f"tcp://127.0.0.1:{port}")
        _publish_until_heard(good, subscriber)


def test_nothing_is_lost_on_a_connection_that_is_heard() -> None:
    with zmq.Context() as context, context.socket(zmq.PUB) as publisher:
        port = publisher.bind_to_random_port("tcp://127.0.0.1")
        # Nobody answers there: the dealer may be made anew, the events go on.
        with Subscriber(f"tcp://127.0.0.1:{port}", "tcp://127.0.0.1:1") as subscriber:
            _publish_until_heard(publisher, subscriber)
            subscriber._asked_s = time.monotonic() - 60
            assert subscriber.receive(0.0) == []
            assert subscriber._asked_s is None
            publisher.send_multipart([b"", b"one more"])
            wait_for(subscriber, lambda got: Published(b"one more") in got)


def _publish_until_heard(publisher: zmq.Socket[bytes], subscriber: Subscriber, payload: bytes = b"hello") -> None:
    deadline = time.monotonic() + 60
    while True:
        publisher.send_multipart([b"", payload])
        if Published(payload) in subscriber.receive(0.05):
            break
        assert time.monotonic() < deadline, "the subscriber is deaf"
    # What was sent meanwhile is not to be taken for what comes later.
    while subscriber.receive(0.1):
        pass


def _bind_when_free(socket: zmq.Socket[bytes], address: str) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.bind(address)
            return
        except zmq.ZMQError:
            assert time.monotonic() < deadline, f"{address} stays taken"
            time.sleep(0.05)
