"""Real sockets: what an engine publishes arrives, whoever dials, and the engine never waits for us."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest
import zmq
from kvxray_backend.sources.foreign.batch_steps import Apply, GapOpened, GapRepaired, Restarted
from kvxray_backend.sources.foreign.endpoint import of_ranks, parse_endpoint
from kvxray_backend.sources.foreign.hand_over import Heard, Publisher, ReplayEnded
from kvxray_backend.sources.foreign.zmq_stream import ZmqStream
from kvxray_engine.errors import UserError

from tests.backend.foreign.engine_rig import EngineRig, payload_of
from tests.backend.foreign.zmq_hearing import PATIENCE_S, Followed, hearing, line_to, take

STALL_S = float(os.environ.get("KVXRAY_TEST_STALL_SECONDS", "5"))


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


def test_an_address_that_is_taken_is_one_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        endpoint = parse_endpoint(f"tcp://127.0.0.1:{taken.getsockname()[1]}", bind=True)
        with pytest.raises(UserError, match="Cannot listen at"):
            ZmqStream([(parse_endpoint("tcp://127.0.0.1:1"), None), (endpoint, None)])
