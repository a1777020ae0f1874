"""The claim of the one writer on a PostgreSQL database: a session's advisory lock, and a mark against having lost it.

The server drops the lock with the session, so a killed kvxray leaves nothing behind. But a server that restarts drops
it too, and another kvxray may come first. Whoever claims therefore leaves a mark of its own in the database, and every
transaction of the log reads it under a lock: where it is another's, what this process knows of the database is no
longer true, and it writes nothing more.
"""

from __future__ import annotations

import secrets
import time
from typing import Final

import sqlalchemy as sa
from kvxray_engine.errors import UserError
from sqlalchemy.dialects import postgresql

from kvxray_storage.database import OPENING_ERRORS, Database
from kvxray_storage.models import setting
from kvxray_storage.refusals import WritesRefused, why_claimed, why_not_opened, why_superseded
from kvxray_storage.row_sums import summed

LOCK: Final = 0x6B767877  # "kvxw"
WAIT_S: Final = 3.0
"""For a session that is just ending: the server notices a killed process when it next reads from it."""
LOOK_EVERY_S: Final = 1.0
_MARK: Final = "writer"
_NOTICE_DEAD_PEERS: Final = (
    "SET tcp_keepalives_idle = 5",
    "SET tcp_keepalives_interval = 5",
    "SET tcp_keepalives_count = 3",
)
"""A machine that lost its power says no goodbye; without these its lock would stay for two hours."""


class ServerClaim:
    """Raises UserError when another process, or another log, has the claim."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._mark = secrets.token_bytes(16)
        self._session: sa.Connection | None = None
        self._looked_at = 0.0
        self._released = False
        try:
            if not self._lock(WAIT_S):
                raise UserError(why_claimed(database.place, "a database"))
            self._leave_mark()
        except OPENING_ERRORS as error:
            self.release()
            raise UserError(why_not_opened(database.place, error)) from error

    def confirm(self, connection: sa.Connection) -> None:
        """Whoever claims meanwhile waits for this transaction's end, since the mark's row is locked until then."""
        self._keep_lock()
        mark = sa.select(setting.c.value).where(setting.c.name == _MARK).with_for_update(read=True)
        found = connection.execute(mark).scalar()
        if found is None or bytes(found) != self._mark:
            raise WritesRefused(why_superseded(self._database.place))

    def release(self) -> None:
        """For good: a writer that hangs and comes back after its log was closed gets the claim no more."""
        self._released = True
        self._drop_session()

    def _drop_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def _keep_lock(self) -> None:
        """Once a second: is the session still there? A server that went away took the lock with it."""
        now = time.monotonic()
        if self._session is not None and now - self._looked_at < LOOK_EVERY_S:
            return
        try:
            if self._session is not None:
                self._session.exec_driver_sql("SELECT 1")
        except sa.exc.SQLAlchemyError:
            self._drop_session()
        if self._session is None and (self._released or not self._lock(0.0)):
            raise WritesRefused(why_claimed(self._database.place, "a database"))
        self._looked_at = now

    def _lock(self, wait_s: float) -> bool:
        """In a session of its own, outside the pool, so that nobody else ends it."""
        session = self._database.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        session.detach()
        try:
            for statement in _NOTICE_DEAD_PEERS:
                session.exec_driver_sql(statement)
            locked = _try_lock(session, time.monotonic() + wait_s)
        except BaseException:
            session.close()
            raise
        if locked:
            self._session = session
        else:
            session.close()
        return locked

    def _leave_mark(self) -> None:
        insert = postgresql.insert(setting).values(summed(setting, {"name": _MARK, "value": self._mark}))
        newest = {name: insert.excluded[name] for name in ("value", "crc")}
        update = insert.on_conflict_do_update(index_elements=["name"], set_=newest)
        with self._database.writing() as connection:
            connection.execute(update)


def _try_lock(session: sa.Connection, until: float) -> bool:
    """One writer a schema: several may share a database."""
    attempt = sa.select(sa.func.pg_try_advisory_lock(LOCK, sa.func.hashtext(sa.func.current_schema())))
    while not session.execute(attempt).scalar():
        if time.monotonic() >= until:
            return False
        time.sleep(0.05)
    return True
