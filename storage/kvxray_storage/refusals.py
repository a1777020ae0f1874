"""What a database's error means for the person who runs kvxray: one sentence, with what to do."""

from __future__ import annotations

from typing import Final

_REASONS: Final = (
    ("disk is full", "the disk is full; free some space"),
    ("no space left", "the disk is full; free some space"),
    ("database is locked", "another program keeps it locked; close that program"),
    ("not a database", "it is not a database; choose another file with KVXRAY_DATABASE_URL"),
    ("decode", "it is damaged; choose another file with KVXRAY_DATABASE_URL or restore a copy"),
    ("no such column", "it is damaged; choose another file with KVXRAY_DATABASE_URL or restore a copy"),
    ("malformed", "it is damaged; choose another file with KVXRAY_DATABASE_URL or restore a copy"),
    ("readonly", "it is not writable; change its permissions or choose another file with KVXRAY_DATABASE_URL"),
    ("read-only", "it is not writable; change its permissions or choose another file with KVXRAY_DATABASE_URL"),
    ("permission denied", "access is denied; grant it or choose another with KVXRAY_DATABASE_URL"),
    ("unable to open", "the file cannot be opened; check its folder or choose another with KVXRAY_DATABASE_URL"),
    ("disk i/o error", "the disk reports an error; check the disk"),
    ("password authentication failed", "the password is wrong; correct KVXRAY_DATABASE_URL"),
    ("does not exist", "it does not exist; create it or correct KVXRAY_DATABASE_URL"),
    ("connect", "the server does not answer; start it or correct KVXRAY_DATABASE_URL"),
    ("terminat", "the server closed the connection; check that it is running"),
)
"""Words in a driver's message (lower case, the first match counts), and what they mean."""


def why_not_opened(place: str, error: Exception) -> str:
    """For a database that could not be opened at all."""
    return f"The database at {place} cannot be used: {_reason(error)}."


def why_not_written(place: str, error: Exception) -> str:
    """For a database that stopped taking writes; kvxray keeps trying by itself."""
    return f"The database at {place} takes no writes: {_reason(error)}, and kvxray goes on by itself."


def why_gone(place: str) -> str:
    """For a database whose file was deleted or replaced under a running kvxray."""
    return f"The database file {place} was removed while kvxray was running: restart kvxray to begin a new one."


def _reason(error: Exception) -> str:
    text = str(getattr(error, "orig", None) or error)
    for words, reason in _REASONS:
        if words in text.lower():
            return reason
    first_line = text.strip().splitlines()[0] if text.strip() else type(error).__name__
    return f"it says {first_line!r}; mend that"
