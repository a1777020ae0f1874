"""What a faulty publisher does to the messages on their way, over real sockets."""

from __future__ import annotations

import time
from collections import Counter

import pytest
from kvxray_engine.faults.fault import Fault
from kvxray_engine.faults.placing import make_publisher
from kvxray_engine.stream.codec import decode
from kvxray_engine.stream.recorder import Recorder
from kvxray_engine.stream.schema import Descriptor, Kind, Name
from kvxray_engine.stream.subscriber import Published, Subscriber

MESSAGES = 200
DESCRIPTOR = Descriptor(
    num_blocks=8, block_size=4, null_block=0, bytes_per_block=0, kv_cache_dtype="none", groups=(), pools=()
)


def heard(name: str, rate: float) -> tuple[list[int], list[int]]:
    """Message numbers in the order in which they came, and those that replay still has."""
    recorder = Recorder()
    publisher = make_publisher(
        (Fault(name, rate, seed=4),),
        recorder,
        DESCRIPTOR,
        "s",
        "tcp://127.0.0.1:*",
        "tcp://127.0.0.1:*",
        heartbeat_s=0.05,
    )
    came: list[int] = []
    subscriber = Subscriber(publisher.events_address, publisher.replay_address)
    with publisher:
        deadline = time.monotonic() + 60
        told = False
        while time.monotonic() < deadline:
            for item in subscriber.receive(0.05):
                if not isinstance(item, Published):
                    continue
                header = decode(item.payload).header
                if header.type != "heartbeat":
                    came.append(header.wire_seq)
                elif not told:  # we are heard, so nothing is missed from here on
                    told = True
                    for number in range(MESSAGES):
                        recorder.new_holder(Name(f"r{number}"))
                        recorder.op(Kind.RequestArrived, 0, number)
                        recorder.flush()
                elif header.wire_seq == MESSAGES - 1 and told == "late":
                    deadline = 0
                elif header.wire_seq == MESSAGES - 1:
                    told = "late"  # what was held back comes after a heartbeat: one more
        kept = [wire_seq for wire_seq, _ in publisher.replay.between(0, MESSAGES)]
    subscriber.close()
    return came, kept


def test_lost_messages_are_nowhere() -> None:
    came, kept = heard("lost-messages", 0.2)
    assert came == kept == sorted(set(came))
    assert 120 < len(came) < 190


def test_messages_out_of_order_all_come() -> None:
    came, kept = heard("reordered-messages", 0.2)
    assert came != sorted(came) == kept == [*range(MESSAGES)]
    assert all(abs(place - number) <= 1 for place, number in enumerate(came))


def test_duplicates_are_the_same_message_twice() -> None:
    came, kept = heard("duplicated-messages", 0.2)
    assert came == sorted(came)
    assert kept == [*range(MESSAGES)] == sorted(set(came))
    assert 10 < Counter(Counter(came).values())[2] < 80


@pytest.mark.parametrize("name", ["lost-messages", "reordered-messages", "duplicated-messages"])
def test_the_same_seed_does_the_same(name: str) -> None:
    assert heard(name, 0.2) == heard(name, 0.2)
