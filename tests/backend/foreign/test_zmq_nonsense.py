"""Real sockets that bring nonsense: it is counted, and what follows is heard."""

from __future__ import annotations

import socket
import time

import pytest
import zmq
from kvxray_backend.sources.foreign import zmq_line
from kvxray_backend.sources.foreign.batch_steps import GapOpened
from kvxray_backend.sources.foreign.caps import MAX_PAYLOAD_BYTES
from kvxray_backend.sources.foreign.endpoint import parse_endpoint
from kvxray_backend.sources.foreign.hand_over import Heard
from kvxray_backend.sources.foreign.zmq_line import MAX_FRAME_BYTES

from tests.backend.foreign.engine_rig import EngineRig, payload_of
from tests.backend.foreign.zmq_hearing import PATIENCE_S, Followed, hearing, line_to, take

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
