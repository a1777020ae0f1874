"""Sums over rows that follow from nothing else, so that a flipped byte in them is found. NULL: stored before.

Only columns at the end of each row: nothing is copied.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_SUMMED = ("setting", "source", "epoch", "name", "gap", "finding", "rollup_1s", "rollup_1m", "bookmark", "retention")


def upgrade() -> None:
    for table in _SUMMED:
        op.add_column(table, sa.Column("crc", sa.BigInteger(), nullable=True))
    op.add_column("epoch", sa.Column("descriptor_crc", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    op.drop_column("epoch", "descriptor_crc")
    for table in reversed(_SUMMED):
        op.drop_column(table, "crc")
