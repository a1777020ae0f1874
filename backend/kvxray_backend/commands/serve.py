"""Serve the dashboard and the API, and follow the engines you name."""

from __future__ import annotations

import argparse
import gc
import signal
import socket
import sys
from types import FrameType
from typing import Any, Final, NoReturn

from kvxray_engine.errors import UserError

SUMMARY: Final = "serve the dashboard and follow running engines"

_told_to_leave: Final[list[int]] = []


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", help="address to listen on; beyond loopback KVXRAY_TOKEN must be set")
    parser.add_argument("--port", type=int, help="port of the page and the API")
    parser.add_argument("--database", metavar="URL", help="where the event log is kept, as a SQLAlchemy URL")
    parser.add_argument(
        "--observe",
        action="append",
        metavar="FILE",
        help="a file that names engines of others to watch (YAML or JSON), read again when it changes; may be repeated",
    )
    parser.add_argument(
        "--source",
        action="append",
        type=source_argument,
        metavar="NAME=EVENTS,REPLAY[,API]",
        help="an engine to follow, for example demo=tcp://127.0.0.1:5570,tcp://127.0.0.1:5571; may be repeated",
    )


def run(options: argparse.Namespace) -> int:
    from kvxray_backend.settings import load_settings

    chosen = {"host": options.host, "port": options.port, "database_url": options.database}
    chosen |= {"sources": options.source, "observe": options.observe}
    return serve(load_settings(**{setting: value for setting, value in chosen.items() if value is not None}))


def source_argument(text: str) -> dict[str, str]:
    """NAME=EVENTS,REPLAY[,API] as the fields of a source."""
    name, equals, rest = text.partition("=")
    parts = rest.split(",")
    if not equals or len(parts) not in (2, 3):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=EVENTS,REPLAY[,API]")
    return dict(zip(("name", "events", "replay", "api"), (name, *parts), strict=False))


def serve(settings: Any, announce: str = "kvxray") -> int:
    """Runs the server until it is told to stop. settings: `kvxray_backend.settings.Settings`."""
    import uvicorn

    from kvxray_backend.allocator import give_large_arrays_back
    from kvxray_backend.main import create_app
    from kvxray_backend.open_files import allow_many_files

    give_large_arrays_back()
    allow_many_files()

    with listen(settings.host, settings.port) as listener:
        settings = settings.model_copy(update={"port": listener.getsockname()[1]})
        config = uvicorn.Config(
            create_app(settings), host=settings.host, port=settings.port, log_level="warning", access_log=False,
            ws="websockets-sansio", ws_max_size=1 << 20, timeout_graceful_shutdown=3,
            # Sockets compress for each viewer anew, which is four times the cost of sending a frame as it is.
            ws_per_message_deflate=False,
        )  # fmt: skip
        sys.stderr.write(f"{announce}: open {settings.url} in a browser (stop with Ctrl-C)\n")
        server = uvicorn.Server(config)
        # From here on the server is told to end and nothing is raised: that is the end, and no failure.
        signal.signal(signal.SIGTERM, server.handle_exit)
        if _told_to_leave:
            return 0
        # What was imported stays: going through it again and again would hold up the threads that follow engines.
        gc.collect()
        gc.freeze()
        try:
            server.run(sockets=[listener])
        except KeyboardInterrupt:
            return 0
        return 0 if server.started else 1


def leave(number: int, frame: FrameType | None) -> NoReturn:
    """As a signal's handler: ends the process with exit code 0, whatever stands in `finally` first.

    What is raised while Python cleans something up is lost, so `serve` looks again whether it was told.
    """
    _told_to_leave.append(number)
    raise SystemExit(0)


def listen(host: str, port: int, option: str = "--port") -> socket.socket:
    """A listening socket. option: what chooses the port. Raises `UserError` when the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(128)
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(
            f"Cannot listen on {host}:{port}: {reason}. Stop what uses it, or choose another with {option}."
        ) from error
    return listener
