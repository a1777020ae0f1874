"""On PostgreSQL, columns that are compressed already are stored as they are: the server tried in vain to compress them
again, which took more than a third of its time.
"""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_PACKED = (
    ("chunk", "bits"), ("chunk", "hash_bits"), ("chunk", "data"), ("keyframe", "rollup"), ("keyframe", "state"),
)  # fmt: skip


def upgrade() -> None:
    _store_as("EXTERNAL")


def downgrade() -> None:
    _store_as("EXTENDED")


def _store_as(how: str) -> None:
    """Of rows to come; those that are stored are read as they stand."""
    if op.get_bind().dialect.name != "postgresql":
        return
    for table, column in _PACKED:
        op.execute(f"ALTER TABLE {table} ALTER COLUMN {column} SET STORAGE {how}")
