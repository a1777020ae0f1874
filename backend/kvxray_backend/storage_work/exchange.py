"""Export and import as a person asks for them: moments to stretches, refusals to sentences."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
from kvxray_engine.errors import UserError
from kvxray_storage.chunk import DamagedChunk
from kvxray_storage.database import Database
from kvxray_storage.event_log import EventLog
from kvxray_storage.exchange.kvx_check import Summary
from kvxray_storage.exchange.kvx_export import export_kvx
from kvxray_storage.exchange.kvx_import import Importer
from kvxray_storage.exchange.parquet_export import export_parquet
from kvxray_storage.exchange.records import BadFile, StoredFinding
from kvxray_storage.exchange.stretch import Exported, NothingThere
from kvxray_storage.records import FindingRow
from pydantic import ValidationError

from kvxray_backend.moments import Moment
from kvxray_backend.source_name import is_source_name
from kvxray_backend.storage_work.stretches import stretches_between
from kvxray_backend.stored_findings import finding_of

FORMATS: Final = ("kvx", "parquet")
_LOG_FILES: Final = ("", "-wal", "-shm", "-journal", "-writer")
"""How the names of files end that make up a log in SQLite."""


def export(
    database: Database, path: Path, file_format: str | None, source: str | None, begin: Moment, end: Moment
) -> Exported:
    """What the file has. file_format: None: as its name ends. Raises UserError."""
    _refuse_what_must_stay(database, path)
    file_format = file_format or _format_of(path)
    try:
        stretches = stretches_between(database, source, begin, end)
        if file_format == "parquet":
            return export_parquet(database, stretches, path)
        return export_kvx(database, stretches, path, time.time_ns())
    except NothingThere as error:
        raise UserError(
            f"Nothing is stored of that, and {path} was not written; kvxray storage stats tells what is."
        ) from error
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror or error}.") from error
    except DamagedChunk as error:
        raise UserError(f"What is stored is damaged, kvxray storage verify tells where: {error}") from error


def _format_of(path: Path) -> str:
    """As what a file's name ends in. Raises UserError where that is none."""
    ending = path.suffix.removeprefix(".")
    if ending not in FORMATS:
        raise UserError(f"{path} ends neither in .kvx nor in .parquet: name it so, or choose with --format.")
    return ending


def _refuse_what_must_stay(database: Database, path: Path) -> None:
    """The file takes the place of what is there: an older file may go, a device or the event log itself may not."""
    if path.exists() and not path.is_file():
        raise UserError(f"{path} is no file that can be written anew; choose another name.")
    log = database.path and database.path.resolve()
    if log is not None and path.resolve() in [log.with_name(log.name + end) for end in _LOG_FILES]:
        raise UserError(f"{path} belongs to the event log that is exported; choose another name.")


def import_file(database: Database, log: EventLog, path: Path, name: str | None) -> Summary:
    """name: what the source of the file is called here; None: as there. Raises UserError."""
    try:
        rename = _as_told if name is None else lambda _: name
        with _said_once():
            return Importer(database, log, path, time.time_ns(), rename, _check_finding).run()
    except BadFile as error:
        raise UserError(f"{path} cannot be imported: {error}.") from error
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from error


@contextmanager
def _said_once() -> Iterator[None]:
    """What the log would say of a database that refuses is the sentence that is raised."""
    logger = logging.getLogger("kvxray_storage.log_writer")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _check_finding(stored: StoredFinding) -> None:
    """As strict as where it will be read."""
    values = msgspec.structs.asdict(stored)
    try:
        numbers = {name: msgspec.json.decode(values.pop(name)) for name in ("subjects", "numbers")}
        finding_of(FindingRow(time_ns=values.pop("at_ns"), **values, **numbers))
    except (ValidationError, msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise BadFile("a finding in it cannot be read") from error


def _as_told(source: str) -> str:
    if not is_source_name(source):
        raise BadFile(f"it calls a source {source[:80]!r}, which is no name here; give it one with --as")
    return source


def check_name(name: str | None) -> None:
    if name is not None and not is_source_name(name):
        raise UserError("A source's name is up to 63 letters, digits, dots, dashes and underscores; change --as.")
