"""As many sockets as an engine of many ranks needs can be had."""

from __future__ import annotations

import resource

import pytest
from kvxray_backend.open_files import ENOUGH, allow_many_files
from kvxray_backend.sources.foreign.endpoint import MAX_RANKS, of_ranks, parse_endpoint
from kvxray_backend.sources.foreign.zmq_stream import ZmqStream


@pytest.fixture
def limits():
    """(soft, hard) as they were, which they are again in the end."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_soft_limit_is_raised_towards_the_hard_one_and_never_lowered(limits):
    _, hard = limits
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    allow_many_files()
    raised = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert raised == (min(ENOUGH, hard) if hard != resource.RLIM_INFINITY else ENOUGH, hard)
    allow_many_files()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == raised


def test_as_many_ranks_as_there_may_be_are_dialled_at_once_events_and_replay(limits):
    allow_many_files()
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 8 * MAX_RANKS:
        pytest.skip("this system grants too few open files")
    lines = zip(
        of_ranks(parse_endpoint("tcp://127.0.0.1:30000"), MAX_RANKS),
        of_ranks(parse_endpoint("tcp://127.0.0.1:40000"), MAX_RANKS),
        strict=True,
    )
    stream = ZmqStream(list(lines))
    try:
        stream.start()
        assert stream.take(0.1) == []
        assert len(stream.addresses) == MAX_RANKS
    finally:
        stream.close()
