"""The database that a command works on: opened to read beside a running kvxray, or claimed to write."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from kvxray_engine.errors import UserError
from kvxray_storage import history
from kvxray_storage.database import Database, open_database
from kvxray_storage.errands import Write
from kvxray_storage.refusals import once, why_not_written
from kvxray_storage.writer_claim import WriterClaim, claim_writer

from kvxray_backend.settings import Settings, load_settings


def settings_of(options: argparse.Namespace) -> Settings:
    return load_settings(**({} if options.database is None else {"database_url": options.database}))


@contextmanager
def reading(settings: Settings, *, create: bool = False) -> Iterator[Database]:
    """create: it need not be there yet. Raises UserError."""
    if not create:
        _refuse_what_is_not_there(settings.database)
    database = open_database(settings.database)
    try:
        yield database
    except sa.exc.SQLAlchemyError as error:
        raise UserError(f"The database at {database.place} cannot be read: {first_line(error)}.") from error
    finally:
        database.close()


class Claimed:
    """A database that nobody else writes to meanwhile. `run`: short transactions, one after the other."""

    def __init__(self, database: Database, claim: WriterClaim) -> None:
        self.database = database
        self._claim = claim

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        with self.database.writing() as connection:
            self._claim.confirm(connection)
            yield connection

    def run(self, writes: Sequence[Write]) -> None:
        for write in writes:
            with self.writing() as connection:
                write(connection)


@contextmanager
def claimed(database: Database) -> Iterator[Claimed]:
    """Raises UserError while a kvxray writes to it, and when it takes no writes."""
    claim = claim_writer(database)
    try:
        yield Claimed(database, claim)
    except sa.exc.SQLAlchemyError as error:
        raise UserError(once(why_not_written(database.place, error))) from error
    finally:
        claim.release()


def check_source(database: Database, name: str | None) -> None:
    """Raises UserError for one that is not stored."""
    known = [source.name for source in history.sources(database)]
    if name is not None and name not in known:
        there = f"there are: {', '.join(known)}" if known else "nothing is stored yet"
        raise UserError(f"The database has no source {name!r}; {there}.")


def first_line(error: Exception) -> str:
    text = str(getattr(error, "orig", None) or error).strip()
    return text.splitlines()[0].rstrip(".") if text else type(error).__name__


def _refuse_what_is_not_there(url: str) -> None:
    """To look at a database does not make one."""
    try:
        address = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        return  # whoever opens it says so
    if address.get_backend_name() == "sqlite" and address.database and not Path(address.database).expanduser().exists():
        raise UserError(f"There is no database at {address.database}; name another with --database.")
