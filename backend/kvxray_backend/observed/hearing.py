"""Which way the events of an engine are heard: over ZeroMQ, by asking its server, or out of a file."""

from __future__ import annotations

from kvxray_backend.observed.file_listener import FileListener
from kvxray_backend.observed.listener import Consumer, Listener
from kvxray_backend.observed.pulled_listener import PulledListener
from kvxray_backend.observed.spec import ObserveSpec
from kvxray_backend.observed.spec_checks import is_http, is_socket
from kvxray_backend.observed.surroundings import Surroundings
from kvxray_backend.observed.zmq_listener import ZmqListener, lines_of
from kvxray_backend.sources.foreign.token_chains import TokenChains


def check_address(spec: ObserveSpec) -> None:
    """Raises `UserError` for an endpoint that cannot be."""
    if spec.events is not None and is_socket(spec.events):
        lines_of(spec)


def listener_to(spec: ObserveSpec, around: Surroundings, consumer: Consumer) -> Listener:
    """Raises `UserError`, and ValueError with one sentence."""
    assert spec.events is not None, "there is something to hear"
    chains = TokenChains(around.digest_key)
    if is_http(spec.events):
        return PulledListener(spec, chains, consumer)
    if not is_socket(spec.events):
        return FileListener(spec, chains, consumer)
    return ZmqListener(spec, chains, around.turns, consumer)
