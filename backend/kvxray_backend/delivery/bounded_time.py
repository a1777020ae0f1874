"""Code of somebody else's, given so many seconds: whatever it loops over, it is stopped between two of its lines."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class TookTooLong(Exception):
    """It was stopped."""


@contextmanager
def bounded_time(seconds: float, file: str) -> Iterator[None]:
    """Raises TookTooLong. Processor time of this thread alone: a busy machine makes no code slow. A single call of what
    is written in C is not broken off. file: the name of its code, as tracebacks have it: what it calls is looked at as
    it is called, so that this costs little.
    """
    until = time.thread_time() + seconds

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if time.thread_time() > until:
            raise TookTooLong
        return trace if frame.f_code.co_filename == file else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)
