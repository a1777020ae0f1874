"""Show a .kvx file in the dashboard, with no engine at all. It is read into a database of its own, which is gone when
you stop.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from kvxray_engine.errors import UserError

SUMMARY: Final = "show an exported file in the dashboard, without an engine"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="what kvxray storage export wrote")
    parser.add_argument("--host", help="address to listen on; beyond loopback KVXRAY_TOKEN must be set")
    parser.add_argument("--port", type=int, help="port of the page and the API")


def run(options: argparse.Namespace) -> int:
    from kvxray_backend.commands.serve import leave, serve
    from kvxray_backend.settings import load_settings

    chosen = {name: value for name in ("host", "port") if (value := getattr(options, name)) is not None}
    # The database is to go whichever way this ends.
    signal.signal(signal.SIGTERM, leave)
    with _own_folder() as folder:
        settings = load_settings(
            database_url=f"sqlite:///{folder}/kvxray.db", sources=(), engines=(), observe=(), retention_age=None,
            retention_size=None, **chosen,
        )  # fmt: skip
        _fill(settings, options.file)
        return serve(settings, announce="kvxray replay")


def _own_folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="kvxray-replay-")
    except OSError as error:
        raise UserError(f"No folder for the database can be made: {error.strerror or error}; set TMPDIR.") from error


def _fill(settings: Any, file: Path) -> None:
    from kvxray_storage.event_log import EventLog

    from kvxray_backend.quantities import counted
    from kvxray_backend.storage_work.exchange import import_file
    from kvxray_backend.storage_work.opening import reading

    with reading(settings, create=True) as database, EventLog(database) as log:
        summary = import_file(database, log, file, None)
    told = f"{counted(summary.num_events, 'event')} of {counted(len(summary.epochs), 'epoch')}"
    sys.stderr.write(f"kvxray replay: {told} in {file}\n")
