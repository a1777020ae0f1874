"""An engine without a model, as a process: it tells of a large pool, and of so many changes of blocks a second.

Prints its two addresses, then `ready` once the pool is filled, and goes on until its standard input closes.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import threading
import time
from collections import deque

from kvxray_engine.stream import publisher
from kvxray_engine.stream.handover import Handover
from kvxray_engine.stream.publisher import Publisher
from kvxray_engine.stream.recorder import Recorder
from kvxray_engine.stream.schema import Cause, Descriptor, Group, Kind, Name, Pool, QueueEnd

STEP_S = 0.01
BLOCK_SIZE = 16
RUN = 16  # blocks that lie beside each other, as an aged pool has them
REQUEST_BLOCKS = 64
FILLED = 0.7  # of the pool: what requests hold
FILL_PAUSE_S = 0.02
FILL_REQUESTS = 100  # a message, while the pool fills

# The map is measured, not the publisher: an engine's rests 50 ms, so that it costs the engine little.
publisher.REST_MS = 10


class PoolTeller:
    """Requests of one size come and go. A block that they release is cached, and given up when it is needed."""

    def __init__(self, recorder: Recorder, num_blocks: int) -> None:
        self.recorder = recorder
        runs = list(range(1, num_blocks, RUN))
        random.Random(7).shuffle(runs)
        self._free = deque(block for start in runs for block in range(start, min(start + RUN, num_blocks)))
        self._cached: set[int] = set()
        self._running: deque[tuple[int, list[int]]] = deque()
        self._step = 0

    def fill(self, blocks: int) -> None:
        """Begin requests that hold about so many blocks."""
        missing = blocks // REQUEST_BLOCKS
        while missing > 0:
            self._start_step()
            for _ in range(min(FILL_REQUESTS, missing)):
                self._begin()
            missing -= FILL_REQUESTS
            self.recorder.complete_step(0)
            time.sleep(FILL_PAUSE_S)

    def step(self, changes: int) -> None:
        """A step in which about so many blocks change: requests end, and others take as many blocks."""
        self._start_step()
        for _ in range(max(1, round(changes / (2 * REQUEST_BLOCKS)))):
            self._end()
            self._begin()
        self.recorder.complete_step(len(self._running))

    def _start_step(self) -> None:
        self._step += 1
        self.recorder.start_step(self._step)

    def _begin(self) -> None:
        recorder = self.recorder
        request = recorder.new_holder(Name(f"request-{recorder.next_req}"))
        blocks = [self._free.popleft() for _ in range(REQUEST_BLOCKS)]
        recorder.op(Kind.RequestArrived, Cause.none, request, 0, REQUEST_BLOCKS * BLOCK_SIZE)
        recorder.op(Kind.RequestScheduled, Cause.none, request, REQUEST_BLOCKS * BLOCK_SIZE, 0)
        recorder.rows(Kind.BlockEvicted, Cause.allocation, request, [one for one in blocks if one in self._cached])
        recorder.rows(Kind.BlockAllocated, Cause.none, request, blocks)
        recorder.filled(blocks, [BLOCK_SIZE] * len(blocks))
        hashes = os.urandom(32 * len(blocks))
        recorder.cached(request, blocks, [hashes[at : at + 32] for at in range(0, len(hashes), 32)], -1)
        self._cached.update(blocks)
        self._running.append((request, blocks))

    def _end(self) -> None:
        request, blocks = self._running.popleft()
        self.recorder.rows(Kind.BlockFreed, Cause.finish, request, blocks, QueueEnd.tail)
        self.recorder.op(Kind.RequestFinished, Cause.none, request, REQUEST_BLOCKS * BLOCK_SIZE, 1)
        self._free.extend(blocks)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("blocks", type=int)
    parser.add_argument("changes_per_s", type=int)
    options = parser.parse_args()
    recorder = Recorder(handover=Handover())
    descriptor = Descriptor(
        options.blocks + 1, BLOCK_SIZE, 0, 2048, groups=(Group(block_size=BLOCK_SIZE),),
        pools=(Pool("GPU", "kv", 0, options.blocks + 1),), model="generated",
    )  # fmt: skip
    with Publisher(recorder, descriptor, "engine", "tcp://127.0.0.1:*", "tcp://127.0.0.1:*") as told:
        print(told.events_address, told.replay_address, flush=True)
        teller = PoolTeller(recorder, options.blocks + 1)
        teller.fill(int(FILLED * options.blocks))
        print("ready", flush=True)
        closing = threading.Event()
        threading.Thread(target=lambda: (sys.stdin.read(), closing.set()), daemon=True).start()
        due, owed = time.monotonic(), 0.0
        while not closing.wait(max(0.0, due - time.monotonic())):
            owed += options.changes_per_s * STEP_S
            if owed >= 2 * REQUEST_BLOCKS:
                rounds = int(owed // (2 * REQUEST_BLOCKS))
                teller.step(rounds * 2 * REQUEST_BLOCKS)
                owed -= rounds * 2 * REQUEST_BLOCKS
            due += STEP_S
    return 0


if __name__ == "__main__":
    sys.exit(main())
