"""Real payloads, spoiled, against the decoders: `python -m tests.backend.foreign.mutated --count N --seed S`

Each is changed in one to three ways: bits, cuts, splices with another, lengths that lie, other types, deep nesting; or
taken apart and written again with something else in it. What comes out must be a batch or `BadBatch`, in bounded time
and memory. Prints what came out and how far the memory grew; exit 1 when something else did.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable

import msgspec
from kvxray_backend.sources.foreign.caps import BadBatch
from kvxray_backend.sources.foreign.dynamo_jsonl import DynamoEvents
from kvxray_backend.sources.foreign.event_batches import decode_batch
from kvxray_backend.sources.foreign.token_chains import TokenChains
from kvxray_backend.sources.foreign.told import Batch
from kvxray_backend.sources.foreign.trtllm_json import TrtllmEvents

from tests.backend.foreign.json_samples import DYNAMO_LINES, TRTLLM_EVENTS
from tests.backend.foreign.payloads import GOLDEN, RECORDINGS, frames

MAX_GROWTH = 96 << 20
MAX_SECONDS_EACH = 5.0
LENGTHS = (
    *(b"\xdd\xff\xff\xff\xff", b"\xdf\x7f\xff\xff\xff", b"\xdc\xff\xff", b"\xde\xff\xff", b"\xc6\xff\xff\xff\xff"),
    *(b"\xdb\xff\xff\xff\xff", b"\xdd\x00\x00\xff\xff", b"\xdf\x00\x00\x00\x10", b"\x9f", b"\x8f", b"\xbf"),
)
VALUES = (
    *(b"\xc0", b"\xc2", b"\xc1", b"\x7f", b"\xff", b"\xcf" + b"\xff" * 8, b"\xd3\x80" + bytes(7), b"\xa0", b"\xa4type"),
    *(b"\xcb\x7f\xf8" + bytes(6), b"\xc4\x00", b"\xc4\x20" + bytes(32), b"\xd6\xff\x00\x00\x00\x00", b"\xc7\x00\x05"),
    *(b"\x80", b"\x90", b"\x81\x01\x02", b"\x92\x01\x02", b"\xa2\xff\xfe"),
)
JSON_VALUES = (
    *(
        b"null",
        b"true",
        b"-1",
        b"1e999",
        b"18446744073709551616",
        b"9" * 400,
        b'"x"',
        b"[]",
        b"{}",
        b"[[[[1]]]]",
        b"\xff",
    ),
    *(b'"\\ud800"', b'{"type":"stored"}', b'"cleared"', b"1.5", b"\n", b'"' + b"f" * 64 + b'"'),
)
NODES = (
    *(None, True, 0, -1, 1.5, 2**63, 2**64 - 1, -(2**63), "", "ab" * 32, "x" * 600, [], [[]], {}, {"a": 1}, [None] * 9),
    *("BlockStored", ["BlockRemoved", [1]], {"type": "BlockRemoved", "block_hashes": [1]}, [["a", 1], "salt"]),
)

Decode = Callable[[bytes], list[Batch]]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.backend.foreign.mutated", description=__doc__)
    parser.add_argument("--count", type=int, default=50_000, help="how many payloads")
    parser.add_argument("--seed", type=int, default=0, help="which ones")
    options = parser.parse_args(arguments)
    started, before = time.monotonic(), _peak()
    outcomes, faults = run(options.count, options.seed)
    for fault in faults[:20]:
        print(fault)
    seconds, growth = time.monotonic() - started, _peak() - before
    told = ", ".join(f"{number} {outcome}" for outcome, number in sorted(outcomes.items()))
    print(f"{options.count} payloads, seed {options.seed}: {told}; {seconds:.0f} s, memory grew by {growth >> 20} MB")
    return 1 if faults or growth > MAX_GROWTH else 0


def run(count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """How many came out as what, and a paragraph for each that came out as something else."""
    choose = random.Random(seed)
    whole = [(payload, MSGPACK) for path in RECORDINGS for payload in frames(path)]
    whole += [(payload, MSGPACK) for payload in GOLDEN.values()] * 10
    whole += [(event, TRTLLM) for event in TRTLLM_EVENTS] * 10 + [(line, DYNAMO) for line in DYNAMO_LINES] * 10
    outcomes: Counter[str] = Counter()
    faults: list[str] = []
    for number in range(count):
        payload, dialect = choose.choice(whole)
        ways = choose.choice([IN_BYTES, IN_PARTS])
        for _ in range(choose.randint(1, 3)):
            other = choose.choice(whole)[0]
            payload = choose.choice(ways)(payload, other, dialect is not MSGPACK, choose)
        began = time.monotonic()
        outcome, fault = outcome_of(dialect(), payload)
        if fault is None and time.monotonic() - began > MAX_SECONDS_EACH:
            fault = "took too long"
        outcomes[outcome] += 1
        if fault is not None:
            faults.append(f"payload {number} of seed {seed}, {payload[:80]!r}: {fault}")
    return outcomes, faults


def outcome_of(decode: Decode, payload: bytes) -> tuple[str, str | None]:
    """What came out, and what is wrong with that."""
    try:
        batches = decode(payload)
    except BadBatch as refused:
        return "refused", None if str(refused).endswith(".") else f"no sentence: {refused}"
    except Exception:
        return "crashed", traceback.format_exc()
    if not all(isinstance(batch, Batch) for batch in batches):
        return "crashed", "something else than a batch"
    for batch in batches:
        for event in batch.events:
            if any(len(one) not in (8, 16, 32) for one in getattr(event, "hashes", ())):
                return "crashed", "a hash of a width that there is not"
    return "odd" if any(batch.oddities for batch in batches) else "whole", None


def MSGPACK() -> Decode:
    chains = TokenChains(b"key", max_remembered=1_000)
    return lambda payload: [decode_batch(payload, chains)]


def TRTLLM() -> Decode:
    return TrtllmEvents(TokenChains(b"key", max_remembered=1_000)).decode


def DYNAMO() -> Decode:
    return DynamoEvents(TokenChains(b"key", max_remembered=1_000)).decode


def _bits(payload, other, is_json, choose):
    spoiled = bytearray(payload)
    for _ in range(choose.randint(1, 4)):
        if spoiled:
            spoiled[choose.randrange(len(spoiled))] ^= 1 << choose.randrange(8)
    return bytes(spoiled)


def _cut(payload, other, is_json, choose):
    start, end = sorted((choose.randint(0, len(payload)), choose.randint(0, len(payload))))
    return choose.choice([payload[:start], payload[:start] + payload[end:]])


def _splice(payload, other, is_json, choose):
    return payload[: choose.randint(0, len(payload))] + other[choose.randint(0, len(other)) :]


def _repeat(payload, other, is_json, choose):
    start, end = sorted((choose.randint(0, len(payload)), choose.randint(0, len(payload))))
    return (payload[:end] + payload[start:end] * choose.randint(1, 20) + payload[end:])[: 1 << 18]


def _length(payload, other, is_json, choose):
    """A header that declares what is not there, where some header may be."""
    at = choose.randint(0, len(payload))
    lie = choose.choice(LENGTHS)
    return payload[:at] + lie + payload[at + choose.choice([0, 1, len(lie)]) :]


def _value(payload, other, is_json, choose):
    """Something of another type, over a byte or between two; in JSON over a whole number, text or word."""
    if is_json:
        at = choose.randint(0, len(payload))
        end = at
        while end < len(payload) and payload[end : end + 1].isalnum():
            end += 1
        return payload[:at] + choose.choice(JSON_VALUES) + payload[end:]
    at = choose.randint(0, len(payload))
    return payload[:at] + choose.choice(VALUES) + payload[at + choose.randint(0, 1) :]


def _node(payload, other, is_json, choose):
    """One thing, anywhere, that is something else: what comes out is well-formed and wrong."""
    codec = msgspec.json if is_json else msgspec.msgpack
    try:
        return codec.encode(_otherwise(codec.decode(payload), choose))
    except (msgspec.MsgspecError, UnicodeError, RecursionError, TypeError, OverflowError):
        return payload  # spoiled before


def _otherwise(value, choose):
    if isinstance(value, list) and value and choose.random() < 0.9:
        at = choose.choice(_deeper(enumerate(value), choose) or range(len(value)))
        return [*value[:at], _otherwise(value[at], choose), *value[at + 1 :]]
    if isinstance(value, dict) and value and choose.random() < 0.9:
        key = choose.choice(_deeper(value.items(), choose) or list(value))
        if choose.random() < 0.2:
            return {name: one for name, one in value.items() if name != key}
        if choose.random() < 0.2:
            return {**value, choose.choice(["new", "type", "medium", "x" * 500]): choose.choice(NODES)}
        return {**value, key: _otherwise(value[key], choose)}
    if isinstance(value, str) and choose.random() < 0.5:
        return value[: choose.randint(0, len(value))] + choose.choice(["", "\0", "é", "x" * 100])
    return choose.choice([*NODES, [value], [value] * 3, {"type": value}])


def _deeper(children, choose):
    """Where there is more below, most of the time: else nearly all changes would be at the top."""
    return [at for at, child in children if isinstance(child, (list, dict))] if choose.random() < 0.8 else []


def _nest(payload, other, is_json, choose):
    at, depth = choose.randint(0, len(payload)), choose.choice([3, 40, 900, 1_200, 20_000])
    openings = (b"[", b'{"a":', b'{"event":') if is_json else (b"\x91", b"\x81\xa1a", b"\xdc\x00\x01", b"\x92\x01")
    return payload[:at] + choose.choice(openings) * depth + payload[at:]


def _peak() -> int:
    """Bytes of memory that this process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


IN_BYTES = (_bits, _bits, _cut, _splice, _repeat, _length, _length, _value, _value, _nest)
IN_PARTS = (_node,)

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
