"""What the tables of the event log are made of: how constraints are called, and the columns that many of them have."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

metadata: Final = sa.MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    }
)


def key(*, primary: bool = True) -> list[sa.Column[int]]:
    """The two columns that name an epoch."""
    return [
        sa.Column("source_id", sa.Integer, primary_key=primary, autoincrement=False, nullable=False),
        sa.Column("epoch", sa.Integer, primary_key=primary, autoincrement=False, nullable=False),
    ]


def of_epoch() -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["source_id", "epoch"], ["epoch.source_id", "epoch.epoch"], ondelete="CASCADE")


def crc(name: str = "crc") -> sa.Column[int]:
    """The sum over a row (`row_sums`) that follows from nothing else; NULL: an older kvxray stored it."""
    return sa.Column(name, sa.BigInteger)
