"""A process that imports a file and is killed half way."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from kvxray_storage.database import open_database
from kvxray_storage.exchange import kvx_import

from tests.storage.kvx_files import import_into


def import_and_be_killed(url: str, path: Path, name: str) -> None:
    """When all events are stored, and nothing says that the import is finished: kill -9."""
    kvx_import.finish = lambda connection, ends: os.kill(os.getpid(), signal.SIGKILL)
    import_into(open_database(url), path, name=name)
