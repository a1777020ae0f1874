"""One writer a database: two that follow the same engines would store every event twice, cut differently.

On SQLite a lock on a file beside the database, which the system drops with its process, however that ends. PostgreSQL
databases are not claimed yet.
"""

from __future__ import annotations

import os
from pathlib import Path

from kvxray_engine.errors import UserError

from kvxray_storage.refusals import why_not_opened

try:
    import fcntl
except ModuleNotFoundError:  # pragma: no cover - Windows has no such locks, and gets no claim
    fcntl = None  # type: ignore[assignment]


class WriterClaim:
    """Held from construction to `release`. Raises UserError when another process, or another log, holds it."""

    def __init__(self, database: Path | None) -> None:
        self._descriptor: int | None = None
        if database is None or fcntl is None:
            return
        try:
            descriptor = os.open(f"{database}-writer", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UserError(why_not_opened(str(database), error)) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise UserError(
                f"Another kvxray already writes to the database at {database}; stop it, or give this one "
                "a file of its own with KVXRAY_DATABASE_URL."
            ) from error
        except OSError:
            # A file system without locks: go on without the claim rather than not at all.
            pass
        self._descriptor = descriptor

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
