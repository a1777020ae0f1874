"""A line is dialled anew when nobody has answered for a while, and not before: what is under way would be lost."""

from __future__ import annotations

import zmq
from kvxray_backend.sources.foreign.endpoint import parse_endpoint
from kvxray_backend.sources.foreign.zmq_line import REDIAL_NS, Line

from tests.e2e.demo_rig import free_ports


def test_a_line_that_was_just_dialled_is_given_its_time() -> None:
    with zmq.Context() as context:
        endpoint = parse_endpoint(f"tcp://127.0.0.1:{free_ports(1)[0]}")
        line = Line(context, zmq.Poller(), endpoint, None, b"")
        line.open()
        first, began_ns = line.sub, 10**18
        for waited_ns in (0, REDIAL_NS):
            line.look_after(began_ns + waited_ns)
            assert line.sub is first
        line.look_after(began_ns + REDIAL_NS + 1)
        assert line.sub is not first
        line.close()
