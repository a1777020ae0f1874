"""Errors that are the user's to mend: one sentence that says what to do, exit code 2, never a traceback."""

from __future__ import annotations


class UserError(Exception):
    """Bad input or a missing thing; the message is the whole of what the user reads."""

    exit_code = 2
