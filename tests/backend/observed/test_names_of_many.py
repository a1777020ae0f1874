"""A name that stands for many: an engine for each address, attached and let go as answers change."""

from __future__ import annotations

import threading

import pytest
from kvxray_backend.observed.address_book import AddressBook
from kvxray_backend.observed.attaching import Attaching
from kvxray_backend.observed.dns import expanded, host_to_expand, resolve
from kvxray_backend.observed.registry import ObservedEngines
from kvxray_backend.observed.spec import BadSpec, ObserveSpec, read_spec
from kvxray_engine.clock import SystemClock
from kvxray_engine.errors import UserError

from tests.backend.observed.watching import stored_in, until

POOL = ObserveSpec(
    name="pool", events="tcp://pods.svc:5557", replay="tcp://pods.svc:5558", metrics="http://pods.svc:8000/metrics",
    labels={"model": "m"}, expand="dns",
)  # fmt: skip


class Names:
    """What a resolver says, changed by the test. `asked`: how often."""

    def __init__(self, **addresses: list[str]) -> None:
        self.addresses = {name.replace("_", "."): found for name, found in addresses.items()}
        self.asked = 0

    def __call__(self, host: str) -> list[str]:
        self.asked += 1
        found = self.addresses.get(host)
        if found is None:
            raise UserError(f"The name {host!r} cannot be looked up: no.")
        return sorted(found)


def test_the_address_takes_the_place_of_the_name_wherever_it_stands():
    one, two = expanded(POOL, host_to_expand(POOL), ["10.0.0.7", "fd00::1"])
    assert one == ObserveSpec(
        name="pool-10.0.0.7", events="tcp://10.0.0.7:5557", replay="tcp://10.0.0.7:5558",
        metrics="http://10.0.0.7:8000/metrics", labels={"host": "pods.svc", "model": "m"},
    )  # fmt: skip
    assert (two.name, two.events, two.metrics) == (
        "pool-fd00--1", "tcp://[fd00::1]:5557", "http://[fd00::1]:8000/metrics",
    )  # fmt: skip
    for spec in (one, two):
        assert read_spec(spec.model_dump()) == spec


def test_what_is_elsewhere_stays_there_and_long_names_end_in_a_digest():
    spec = POOL.model_copy(update={"name": "n" * 47, "metrics": "http://gateway:8000/metrics"})
    address = "fd00:1111:2222:3333:4444:5555:6666:7777"
    [one] = expanded(spec, "pods.svc", [address])
    assert one.metrics == "http://gateway:8000/metrics"
    assert len(one.name) <= 63
    assert expanded(spec, "pods.svc", [address]) == [one]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"events": "tcp://h:1", "bind": True}, "expand"),
        ({"prometheus": "http://p", "match": {"a": "b"}}, "expand"),
        ({"metrics": "https://h/metrics"}, "metrics"),
        ({"events": "tcp://h:1", "name": "n" * 48}, "name"),
    ],
)
def test_what_cannot_be_expanded_is_refused(fields, field):
    with pytest.raises(BadSpec) as refusal:
        read_spec({"name": "pool", **fields, "expand": "dns"})
    assert refusal.value.field == field


@pytest.mark.parametrize("events", ["tcp://*:1", "ipc:///tmp/x"])
def test_what_has_no_name_cannot_either(events):
    with pytest.raises(UserError, match="expand needs the name of a host"):
        host_to_expand(ObserveSpec(name="pool", events=events, expand="dns"))


def test_this_machine_resolves_itself_and_nonsense_is_one_sentence():
    assert resolve("127.0.0.1") == ["127.0.0.1"]
    for nonsense in ("no-such-host.invalid", "a" * 300, "\u2024."):
        with pytest.raises(UserError, match="cannot be looked up: "):
            resolve(nonsense)


def test_an_address_goes_when_two_answers_in_a_row_lack_it_and_a_failure_changes_nothing():
    names = Names(svc=["a", "b"])
    book = AddressBook(names)
    book.want({"svc"})
    assert book.addresses("svc") == []
    book.look_up()
    assert book.addresses("svc") == ["a", "b"]
    version = book.version
    names.addresses["svc"] = ["b", "c"]
    book.look_up()
    assert (book.addresses("svc"), book.version > version) == (["a", "b", "c"], True)
    del names.addresses["svc"]
    for _ in range(3):
        book.look_up()
    assert book.addresses("svc") == ["a", "b", "c"]
    assert book.troubles == {"svc": "The name 'svc' cannot be looked up: no."}
    names.addresses["svc"] = ["b", "c"]
    book.look_up()
    assert (book.addresses("svc"), book.troubles) == (["b", "c"], {})
    book.want(set())
    assert (book.addresses("svc"), book.troubles) == ([], {})


def test_an_address_that_is_missing_once_stays():
    names = Names(svc=["a", "b"])
    book = AddressBook(names)
    book.want({"svc"})
    for answer in (["a", "b"], ["a"], ["a", "b"], ["b"], ["a", "b"]):
        names.addresses["svc"] = answer
        book.look_up()
        assert book.addresses("svc") == ["a", "b"]


@pytest.fixture
def attached(tmp_path):
    """Makes what attaches entries by a resolver: (its engines); everything is closed in the end."""
    with stored_in(tmp_path) as (database, log):
        engines = ObservedEngines(database, log, SystemClock())
        made = []

        def attach(names, *entries):
            book = AddressBook(names, every_s=0.05)
            attaching = Attaching(entries, (), engines, database, SystemClock(), book)
            made.append(attaching)
            attaching.start()
            return engines

        yield attach
        for one in made:
            one.close()
        engines.close()


def test_engines_come_and_go_with_the_addresses_and_those_that_stay_are_not_touched(attached):
    names = Names(pods_svc=["10.255.255.1", "10.255.255.2"])
    engines = attached(names, POOL)
    until(lambda: {one.spec.name for one in engines.all} == {"pool-10.255.255.1", "pool-10.255.255.2"})
    stays = engines.get("pool-10.255.255.2")
    names.addresses["pods.svc"] = ["10.255.255.2", "10.255.255.3"]
    until(lambda: {one.spec.name for one in engines.all} == {"pool-10.255.255.2", "pool-10.255.255.3"})
    assert engines.get("pool-10.255.255.2") is stays
    del names.addresses["pods.svc"]
    [problem] = until(lambda: engines.problems)
    assert (problem.where, problem.sentence) == ("pods.svc", "The name 'pods.svc' cannot be looked up: no.")
    assert len(engines.all) == 2


def test_a_resolver_that_hangs_holds_up_nothing_and_nobody_waits_for_it_in_the_end(attached):
    over = threading.Event()

    def hang(host):
        over.wait(30)
        return []

    try:
        engines = attached(hang, POOL, ObserveSpec(name="east", metrics="http://127.0.0.1:1/metrics"))
        assert [one.spec.name for one in engines.all] == ["east"]
    finally:
        over.set()
