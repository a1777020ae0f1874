"""Names of holders, against the messages that first told them, where those are stored still."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from kvxray_storage import models
from kvxray_storage.checking.stored_rows import rows_of
from kvxray_storage.chunk_reader import StoredChunk
from kvxray_storage.commit_batch import name_texts, whole_detail
from kvxray_storage.epoch_directory import of_epoch
from kvxray_storage.records import EpochKey


def check_names_told(
    connection: sa.Connection, key: EpochKey, chunk: StoredChunk, tell: Callable[[str, str], None]
) -> None:
    """That those which the chunk tells are there, and say what it says."""
    header, table = chunk.message.header, models.name
    if not header.names:
        return
    told = dict(enumerate(header.names, header.req0))
    within = table.c.ordinal.between(header.req0, header.req0 + len(header.names) - 1)
    for values in rows_of(connection, table, *of_epoch(table, key), within):
        name = told.pop(values["ordinal"])
        identity, detail = name_texts(name)
        for column, expected in (("id", (identity,)), ("detail", (detail, whole_detail(name)))):
            if values[column] not in expected:
                tell(f"ordinal {values['ordinal']}", f"{column} is not what the message that told it says")
    for ordinal in told:
        tell(f"ordinal {ordinal}", "it was told in a message that is stored, and is missing")
