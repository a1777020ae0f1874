"""Imports: an epoch whose import has begun and has not ended says so."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("epoch", sa.Column("importing_ns", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    op.drop_column("epoch", "importing_ns")
