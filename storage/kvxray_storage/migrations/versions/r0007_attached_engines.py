"""Engines that were attached while the server ran, so that it watches them again after a restart."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "attached_engine",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("created_ns", sa.BigInteger(), nullable=False),
        sa.Column("crc", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("name", name="pk_attached_engine"),
    )


def downgrade() -> None:
    op.drop_table("attached_engine")
