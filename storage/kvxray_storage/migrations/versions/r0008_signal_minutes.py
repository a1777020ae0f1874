"""What the metrics of an engine told, minute by minute."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "signal_minute",
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("t_s", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("packed", sa.LargeBinary(), nullable=False),
        sa.Column("crc", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("source", "t_s", name="pk_signal_minute"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("signal_minute")
