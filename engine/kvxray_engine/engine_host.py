"""What any process that runs an engine needs around it: signals to end by, threads to compute with, a bound on what
torch keeps, a line that says it is ready.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kvxray_engine.stream.publisher import Publisher

KERNEL_CACHES: Final = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
"""Of oneDNN, and of the layer through which torch calls it; each keeps 1024 kernels when nobody says otherwise."""
KERNELS_KEPT: Final = 128
"""A product's kernel is made for its number of rows and takes up to a megabyte. Over chunks of 1 to 512 tokens the
products of SmolLM2's size took 1,000 MB more than at first with 1024, 190 MB with 128. Those of 25 numbers of rows are
still at hand: where decode batches of 1 to 20 and such chunks came mixed, a step took 0.4 ms longer, with 64 1 ms.
"""


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set; the handlers from before come back afterwards."""
    stopping = threading.Event()
    before = {sig: signal.signal(sig, lambda *_: stopping.set()) for sig in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopping
    finally:
        for sig, handler in before.items():
            signal.signal(sig, handler)


def default_threads(cores: int) -> int:
    """Torch threads that leave a core to the page; more than four gain a model this small nothing."""
    return max(1, min(4, cores - 1))


def limit_kernel_caches() -> None:
    """Bound the memory that products of ever new numbers of rows take. It counts for torch's first product and later:
    call it before that. What the environment says already stands.
    """
    for name in KERNEL_CACHES:
        os.environ.setdefault(name, str(KERNELS_KEPT))


def loopback_endpoint(port: int) -> str:
    """Where a publisher binds; port 0 = any free one."""
    return f"tcp://127.0.0.1:{port or '*'}"


def say_ready(publisher: Publisher, api_address: str, model: str) -> None:
    """One JSON line on standard output: what runs, and where to reach it."""
    addresses = {"events": publisher.events_address, "replay": publisher.replay_address, "api": api_address}
    sys.stdout.write(json.dumps({"ready": True, "model": model, **addresses}) + "\n")
    sys.stdout.flush()
