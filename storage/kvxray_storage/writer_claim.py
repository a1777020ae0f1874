"""One writer a database: two that follow the same engines would store every event twice, cut differently.

On SQLite a lock on a file beside the database, on PostgreSQL a lock of the server (`server_claim`): both end with their
process, however that ends.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Protocol

import sqlalchemy as sa
from kvxray_engine.errors import UserError

from kvxray_storage.database import Database
from kvxray_storage.refusals import why_claimed, why_not_opened
from kvxray_storage.server_claim import ServerClaim

try:
    import fcntl
except ModuleNotFoundError:  # pragma: no cover - Windows has no such locks, and gets no claim
    fcntl = None  # type: ignore[assignment]

_MODE: Final = 0o600


class WriterClaim(Protocol):
    """Held from construction to `release`."""

    def confirm(self, connection: sa.Connection) -> None:
        """Inside a transaction that writes, before anything else: raises WritesRefused when the claim was lost."""

    def release(self) -> None: ...


def claim_writer(database: Database) -> WriterClaim:
    """Raises UserError when another process, or another log, has the claim."""
    if database.path is None:
        return ServerClaim(database)
    return FileClaim(database.path)


class FileClaim:
    """The system drops the lock with its process; a file that is removed is `file_watch`'s to notice."""

    def __init__(self, database: Path) -> None:
        self._descriptor: int | None = None
        if fcntl is None:
            return
        try:
            descriptor = os.open(f"{database}-writer", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
        except OSError as error:
            raise UserError(why_not_opened(str(database), error)) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise UserError(why_claimed(str(database), "a file")) from error
        except OSError:
            # A file system without locks: go on without the claim rather than not at all.
            pass
        self._descriptor = descriptor

    def confirm(self, connection: sa.Connection) -> None:
        """The lock of an open file cannot be lost."""

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
