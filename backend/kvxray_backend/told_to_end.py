"""A command that is told to end cleans up first and ends with the exit code that shells expect of it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, NoReturn

_SIGNALS: Final = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Told:
    """`exit_code`: None until a signal came. What a signal raises while Python cleans something up is lost, so whoever
    came to the end all the same looks here.
    """

    exit_code: int | None = None


@contextmanager
def ending_cleanly() -> Iterator[Told]:
    """Around the whole of a command, in the main thread. A signal that is ignored (`nohup`) stays so."""
    told, before = Told(), {number: signal.getsignal(number) for number in (*_SIGNALS, signal.SIGINT)}

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        told.exit_code = 128 + number
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(told.exit_code)

    for number, handler in before.items():
        if handler in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, leave)
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
