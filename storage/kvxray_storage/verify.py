"""Whether what is stored is what was written, and fits together: what follows from something else is compared with what
it follows from, what follows from nothing by its sum (`row_sums`), and all of it for sense. Changes nothing.

Every epoch is read as of one moment, so that a kvxray that writes meanwhile disturbs nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from kvxray_storage import models
from kvxray_storage.checking.epoch_check import EpochCheck
from kvxray_storage.checking.fault import Fault, Verdict
from kvxray_storage.checking.plain_tables import OF_NAMED, OF_NOBODY, OF_SOURCE, check_row, check_table
from kvxray_storage.checking.stored_rows import Values, rows_of
from kvxray_storage.database import Database
from kvxray_storage.records import EpochKey

Step = Callable[[sa.Connection], None]


def verify(database: Database, source: str | None = None, verdict: Verdict | None = None) -> Verdict:
    """Of one source, or of all. verdict: filled, and told as it goes."""
    check = _Check(database, verdict or Verdict())
    check.files()
    for table in OF_NOBODY if source is None else ():
        check.table(table)
    for values in check.sources(source):
        check.source(values["source_id"], _shown(values["name"]))
    for table in OF_NAMED:
        check.table(table, *(() if source is None else (table.c.source == source,)))
    return check.verdict


class _Check:
    def __init__(self, database: Database, verdict: Verdict) -> None:
        self.verdict = verdict
        self._database = database

    def files(self) -> None:
        """What the database itself can tell of its pages and references."""
        self.verdict.on_progress("the database's own structure")
        if self._database.url_scheme != "sqlite":
            self._say_what_a_server_knows()
            return
        try:
            self._database.check_integrity()
        except (AssertionError, sa.exc.DatabaseError) as error:
            what = f"it is damaged ({str(error).splitlines()[0].rstrip('.')})"
            self.verdict.tell(Fault("database", "", None, "", what))

    def table(self, table: sa.Table, *conditions: sa.ColumnElement[bool], source: str = "") -> None:
        self._run(table, source, lambda connection: check_table(connection, self.verdict, table, source, *conditions))

    def sources(self, name: str | None) -> list[Values]:
        table, found = models.source, list[Values]()
        of = () if name is None else (table.c.name == name,)
        self._run(table, name or "", lambda connection: found.extend(rows_of(connection, table, *of)))
        for values in found:
            self.verdict.checked["source"] += 1
            check_row(self.verdict, table, _shown(values["name"]), values)
        return found

    def source(self, source_id: int, name: str) -> None:
        table, epochs = models.epoch, list[int]()
        query = sa.select(table.c.epoch).where(table.c.source_id == source_id).order_by(table.c.epoch)
        self._run(table, name, lambda connection: epochs.extend(connection.execute(query).scalars()))
        for epoch in epochs:
            self._epoch(EpochKey(source_id, epoch), name)
        for one in OF_SOURCE:
            self.table(one, one.c.source_id == source_id, source=name)

    def _epoch(self, key: EpochKey, name: str) -> None:
        self.verdict.on_progress(f"epoch {key.epoch} of {name}")

        def check(connection: sa.Connection) -> None:
            EpochCheck(connection, key, name, self.verdict).check()

        self._run(models.epoch, name, check, key.epoch)

    def _say_what_a_server_knows(self) -> None:
        with self._database.reading() as connection:
            sums = connection.exec_driver_sql("SHOW data_checksums").scalar()
        also = "" if sums == "on" else ", and it keeps no sums of its pages"
        self.verdict.not_checked[f"the server's own files and indexes, of which only its pg_amcheck tells{also}"] = 0

    def _run(self, table: sa.Table, source: str, step: Step, epoch: int | None = None) -> None:
        """As of one moment of the database. What cannot be read is a fault too, and the rest goes on."""
        try:
            with self._database.reading() as connection:
                step(connection)
        except (sa.exc.DatabaseError, OverflowError, UnicodeDecodeError) as error:
            lines = str(getattr(error, "orig", None) or error).strip().splitlines() or ["it says no more"]
            self.verdict.tell(Fault(table.name, source, epoch, "", f"it cannot be read ({lines[0].rstrip('.')})"))


def _shown(name: str | bytes) -> str:
    return name.decode(errors="backslashreplace") if isinstance(name, bytes) else name
