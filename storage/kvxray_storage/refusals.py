"""What a database's error means for the person who runs kvxray: one sentence, with what to do."""

from __future__ import annotations

from typing import Final

from kvxray_storage.file_watch import FileGone

_REASONS: Final = (
    ("disk is full", "the disk is full; free some space"),
    ("no space left", "the disk is full; free some space"),
    ("database is locked", "another program keeps it locked; close that program"),
    ("lock timeout", "another program keeps it locked; close that program"),
    ("not a database", "it is not a database; choose another file with KVXRAY_DATABASE_URL"),
    ("decode", "it is damaged; choose another file with KVXRAY_DATABASE_URL or restore a copy"),
    ("no such column", "it is damaged; choose another file with KVXRAY_DATABASE_URL or restore a copy"),
    ("malformed", "it is damaged; choose another file with KVXRAY_DATABASE_URL or restore a copy"),
    ("readonly", "it is not writable; change its permissions or choose another file with KVXRAY_DATABASE_URL"),
    ("read-only", "it is not writable; change its permissions or choose another file with KVXRAY_DATABASE_URL"),
    ("permission denied", "access is denied; grant it or choose another with KVXRAY_DATABASE_URL"),
    ("no schema has been selected", "this user may make no tables there; grant it CREATE on a schema"),
    ("unable to open", "the file cannot be opened; check its folder or choose another with KVXRAY_DATABASE_URL"),
    ("disk i/o error", "the disk reports an error; check the disk"),
    ("password authentication failed", "the password is wrong; correct KVXRAY_DATABASE_URL"),
    ("no pg_hba.conf entry", "the server lets this user or address not in; change its pg_hba.conf"),
    ("no password supplied", "it needs a password; write it into KVXRAY_DATABASE_URL"),
    ("failed to resolve host", "there is no such host; correct KVXRAY_DATABASE_URL"),
    ("too many c", "the server has no connection left; raise its max_connections or close other programs"),
    ("connection slots", "the server has no connection left; raise its max_connections or close other programs"),
    ("does not exist", "it does not exist; create it or correct KVXRAY_DATABASE_URL"),
    ("connect", "the server does not answer; start it or correct KVXRAY_DATABASE_URL"),
    ("terminat", "the server closed the connection; check that it is running"),
)
"""Words in a driver's message (lower case, the first match counts), and what they mean."""

_GOES_ON: Final = ", and kvxray goes on by itself"


def why_not_opened(place: str, error: Exception) -> str:
    """For a database that could not be opened at all."""
    return f"The database at {place} cannot be used: {_reason(error)}."


def why_not_written(place: str, error: Exception) -> str:
    """For a database that stopped taking writes; kvxray keeps trying by itself."""
    if isinstance(error, WritesRefused):
        return str(error)
    if isinstance(error, FileGone):
        return why_gone(place)
    return f"The database at {place} takes no writes: {_reason(error)}{_GOES_ON}."


def once(sentence: str) -> str:
    """The sentence of `why_not_written` for what tries only once."""
    return sentence.replace(_GOES_ON, "")


class WritesRefused(Exception):
    """Writing is refused by kvxray itself, not by the database; `str` is the sentence."""


def why_claimed(place: str, thing: str) -> str:
    """For a database that another process writes to. thing: `a file` or `a database`."""
    return (
        f"Another kvxray already writes to the database at {place}; stop it, or give this one {thing} of its own "
        "with KVXRAY_DATABASE_URL."
    )


def why_superseded(place: str) -> str:
    """For a database that another kvxray took over while this one could not reach it."""
    return (
        f"Another kvxray took over the database at {place} while this one could not reach it, and this one stores "
        "nothing more: stop one of them and restart the other."
    )


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
