"""Addresses of publishers: who dials, which ranks have which, and what makes no sense."""

from __future__ import annotations

import pytest
from kvxray_backend.sources.foreign.endpoint import Endpoint, of_ranks, parse_endpoint
from kvxray_engine.errors import UserError


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
