"""Transactions of the one writer: only on the file that was opened, and while the claim on the database holds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import sqlalchemy as sa

from kvxray_storage.database import Database
from kvxray_storage.file_watch import FileGone, FileWatch
from kvxray_storage.writer_claim import WriterClaim


class WriterTransactions:
    """Belongs to the writer's thread."""

    def __init__(self, database: Database, claim: WriterClaim) -> None:
        self._database = database
        self._claim = claim
        self._file = FileWatch(database.path)
        self._was_gone = False

    @contextmanager
    def begin(self) -> Iterator[sa.Connection]:
        """Committed at the end, undone when anything is raised. Raises FileGone, and what the claim raises."""
        self._check_file()
        with self._database.writing() as connection:
            self._claim.confirm(connection)
            yield connection

    def _check_file(self) -> None:
        if self._file.is_gone():
            self._was_gone = True
            raise FileGone
        if self._was_gone:
            # Readers that came meanwhile opened what lay there instead; their connections are not ours to write to.
            self._database.engine.dispose()
            self._was_gone = False
