"""Compression beside the writer's thread. It needs no interpreter, so the writer folds the next events meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Packed = TypeVar("Packed")


class Packer:
    """One thread, that packs in the order it is asked to."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="kvxray-packing")

    def pack(self, make: Callable[[], Packed]) -> Future[Packed]:
        """What `make` returns, or raises, once somebody needs it."""
        return self._thread.submit(make)

    def close(self) -> None:
        """What was asked for is made still."""
        self._thread.shutdown()
