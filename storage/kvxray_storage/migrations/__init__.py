"""Alembic's folder: `env.py` runs the scripts in `versions/` on a connection that the caller gives."""
