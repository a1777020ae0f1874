"""What SIGTERM and SIGINT do while a process is busy and looks at no event: they end what it does, and it tidies up."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def end_on_signals() -> Iterator[None]:
    """Within, SIGINT raises KeyboardInterrupt and SIGTERM raises SystemExit(143); earlier handlers come back after.

    Only the first is heeded, so that a second does not interrupt the tidying. Signals belong to the main thread: in
    another one this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _end) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, _: FrameType | None) -> None:
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)
