"""Record what a vLLM, SGLang or TensorRT-LLM engine publishes about its cache, to look at it later or elsewhere. Token
ids are made zeros, since they are what people wrote, unless you ask for them. It ends with Ctrl-C, or where you say.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

from kvxray_engine.errors import UserError

SUMMARY: Final = "record what a foreign engine publishes about its cache"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source", metavar="SOURCE", help="where it publishes: tcp://host:5557; tcp://*:5557 where the engine dials out"
    )
    parser.add_argument("file", metavar="FILE", type=Path, help="the file to write, such as run.frames.jsonl.gz")
    parser.add_argument(
        "--replay", metavar="ENDPOINT", help="where it answers replay: what was lost is asked for again"
    )
    parser.add_argument("--topic", default="", help="only topics that begin so; else all")
    parser.add_argument("--ranks", type=int, default=1, metavar="N", help="data-parallel ranks, each one port further")
    parser.add_argument("--bind", action="store_true", help="listen at SOURCE instead of dialling it")
    parser.add_argument("--seconds", type=float, metavar="N", help="end after so many")
    parser.add_argument("--batches", type=int, metavar="N", help="end after so many")
    parser.add_argument("--with-tokens", action="store_true", help="keep token ids: they are what people wrote")


def run(options: argparse.Namespace) -> int:
    from kvxray_backend.sources.foreign.endpoint import of_ranks, parse_endpoint
    from kvxray_backend.sources.foreign.recording import Recorder
    from kvxray_backend.sources.foreign.recording_session import Limits, RecordingSession
    from kvxray_backend.sources.foreign.zmq_stream import ZmqStream

    _check(options)
    events = of_ranks(parse_endpoint(options.source, bind=options.bind), options.ranks)
    replays = of_ranks(parse_endpoint(options.replay), options.ranks) if options.replay else [None] * len(events)
    if any(replay is not None and replay.is_bound for replay in replays):
        raise UserError("--replay is dialled: name the host of the engine, such as tcp://host:5558.")
    with Recorder(options.file) as recorder:
        stream = ZmqStream(list(zip(events, replays, strict=True)), topic_prefix=options.topic.encode())
        try:
            session = RecordingSession(stream, recorder, _say, with_tokens=options.with_tokens)
            _say(f"listening to {', '.join(stream.addresses)}; Ctrl-C ends it")
            with _ending() as told:
                session.run(Limits(options.seconds, options.batches), lambda: told.to_end)
        finally:
            stream.close()
    session.tell()
    if recorder.num_lines:
        return 0
    _say(f"nothing was heard that could be recorded, so there is no {options.file}")
    return 1


class _Told:
    """`to_end`: a signal came."""

    to_end = False


@contextmanager
def _ending() -> Iterator[_Told]:
    """Ctrl-C and SIGTERM are how a recording ends well; a signal that is ignored (`nohup`) stays so."""
    told = _Told()

    def note(number: int, frame: FrameType | None) -> None:
        told.to_end = True

    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(number, note)
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _check(options: argparse.Namespace) -> None:
    if any(endpoint.startswith("inproc://") for endpoint in (options.source, options.replay or "")):
        raise UserError("An inproc:// endpoint is heard within its own process only; record needs tcp:// or ipc://.")
    if options.seconds is not None and not 0 < options.seconds < float("inf"):
        raise UserError("--seconds is a number above 0.")
    if options.batches is not None and options.batches < 1:
        raise UserError("--batches is a whole number above 0.")


def _say(sentence: str) -> None:
    sys.stderr.write(f"kvxray record: {sentence}\n")
    sys.stderr.flush()
