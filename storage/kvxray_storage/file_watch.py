"""Whether a database's file is still the one that was opened: an open file can be written long after it was deleted.

SQLite does not say so; what it commits then is gone with the process.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

LOOK_EVERY_S: Final = 1.0


class FileGone(Exception):
    """Another file, or none, lies where the database was opened."""


class FileWatch:
    """Remembers the file at construction; `is_gone` compares, at most once every LOOK_EVERY_S while all is well.

    Without a path (PostgreSQL) nothing is ever gone.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._opened = self._identity()
        self._looked_at = time.monotonic()
        self._gone = False

    def is_gone(self) -> bool:
        """Whether another file, or none, lies at the path. While it is gone it is looked for each time."""
        now = time.monotonic()
        if self._gone or now - self._looked_at >= LOOK_EVERY_S:
            self._looked_at = now
            self._gone = self._identity() != self._opened
        return self._gone

    def _identity(self) -> tuple[int, int] | None:
        """Device and inode; None for what cannot be found."""
        if self._path is None:
            return None
        try:
            found = os.stat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError:
            # A folder that cannot be looked into for now tells nothing of the file.
            return self._opened
        return found.st_dev, found.st_ino
