"""How kvxray talks to a PostgreSQL server: what each connection asks for, and which databases cannot hold its texts."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa
from kvxray_engine.errors import UserError
from sqlalchemy.engine.interfaces import DBAPIConnection

ONE_MOMENT: Final[dict[str, Any]] = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
"""For readers: all their questions are answered from the moment of the first."""

_CONNECTIONS: Final[dict[str, Any]] = {"pool_pre_ping": True, "pool_size": 5, "max_overflow": 60}
"""Every thread that may ask gets a connection at once (the API has 40), so that the writer never waits for readers."""

_CONNECT: Final[dict[str, str]] = {
    "connect_timeout": "5",
    "keepalives_idle": "5",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
    "application_name": "kvxray",
}
"""libpq's, unless the address has its own: a server that vanished without a goodbye is noticed within seconds."""

LOCK_TIMEOUT_MS: Final = 5000
"""As on SQLite: who keeps a table locked is waited for, but not for ever, and then it is said."""

_DURABLE: Final = (
    "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
)
"""What a commit has answered must survive the server's end; stronger settings than `on` stay."""


def engine_options(address: sa.URL) -> dict[str, Any]:
    """What `create_engine` is given beside the address."""
    connect = {name: value for name, value in _CONNECT.items() if name not in address.query}
    return {**_CONNECTIONS, "connect_args": connect}


def storable(text: str) -> str:
    """PostgreSQL has no NUL in text; nobody's name needs one."""
    return text.replace("\0", "\ufffd")


def set_up(connection: DBAPIConnection, _: object) -> None:
    """A connection that was just made; listens to the engine's `connect`."""
    _take_any_text(connection)
    cursor = connection.cursor()
    cursor.execute(_DURABLE)
    cursor.execute(f"SET lock_timeout = {LOCK_TIMEOUT_MS}")
    cursor.close()
    connection.commit()


def _take_any_text(connection: Any) -> None:
    """Texts come from engines and from addresses: one with a NUL must fail neither a commit, for ever, nor a question.

    connection: psycopg's. The import is here because SQLite alone does without the driver.
    """
    from psycopg.types.string import StrDumperUnknown

    class Storable(StrDumperUnknown):
        def dump(self, obj: str) -> Any:
            return super().dump(storable(obj))

    connection.adapters.register_dumper(str, Storable)


def refuse_other_encodings(engine: sa.Engine, place: str) -> None:
    """Names of requests are any text. Reads only; raises UserError."""
    with engine.connect() as connection:
        encoding = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
    if encoding != "UTF8":
        raise UserError(
            f"The database at {place} has the encoding {encoding}, which cannot hold every text; "
            "make one with the encoding UTF8 and name it with KVXRAY_DATABASE_URL."
        )
