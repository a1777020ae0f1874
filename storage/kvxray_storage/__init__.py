"""The event log of kvxray: chunks of the stream, keyframes, findings, in SQLite or PostgreSQL, by SQLAlchemy Core."""
