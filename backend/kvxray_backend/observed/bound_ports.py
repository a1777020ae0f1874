"""Whether kvxray can listen where an engine is to dial in: asked beforehand, since threads can refuse nobody."""

from __future__ import annotations

from kvxray_backend.observed.spec import ObserveSpec
from kvxray_backend.observed.spec_checks import is_socket
from kvxray_backend.sources.foreign.endpoint import of_ranks, parse_endpoint
from kvxray_backend.sources.foreign.zmq_stream import ZmqStream


def check_can_listen(spec: ObserveSpec) -> None:
    """Raises `UserError` where a port of it is taken, or is not one of this machine's."""
    if spec.events is None or not is_socket(spec.events):
        return
    endpoints = of_ranks(parse_endpoint(spec.events, bind=spec.bind), spec.ranks)
    if endpoints[0].is_bound:
        ZmqStream([(endpoint, None) for endpoint in endpoints]).close()
