"""Rows of a query of which mostly few are wanted, and now and then very many: a server is asked once for the first
page, and only for more is a cursor opened at it, which costs three more questions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa


def paged(connection: sa.Connection, query: sa.Select[Any], page: int) -> Iterator[Any]:
    """The rows of an ordered query, at most about a page of them in memory. The connection sees one moment."""
    first = connection.execute(query.limit(page)).all()
    yield from first
    if len(first) < page:
        return
    rest = query.offset(page).execution_options(stream_results=True, yield_per=page)
    with connection.execute(rest) as result:
        yield from result
