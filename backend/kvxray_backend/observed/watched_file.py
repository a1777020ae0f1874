"""A file whose meaning is taken anew when it changes, and kept as it was while the file is broken or gone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from kvxray_engine.errors import UserError

from kvxray_backend.observed.engines_file import read_file

Meaning = TypeVar("Meaning")


class WatchedFile(Generic[Meaning]):
    """`meaning`: of the last text that had one. `trouble`: what is wrong with the file now, empty: nothing.

    Its text is read whole each time: it is short, and neither times nor sizes tell of every change.
    """

    def __init__(self, path: Path, parse: Callable[[bytes], Meaning], nothing: Meaning) -> None:
        """parse: raises `UserError`. nothing: what a file that was never understood means."""
        self.path = path
        self.meaning = nothing
        self.trouble = ""
        self._parse = parse
        self._taken: bytes | None = None
        self._fault = ""
        self._coming: bytes | None = None

    def look(self) -> bool:
        """Whether meaning or trouble changed. A new text is taken when it is seen for the second time: whoever writes
        it may not be done.
        """
        before = self.meaning, self.trouble
        try:
            self._look()
        except UserError as error:
            self.trouble, self._coming = str(error), None
        return (self.meaning, self.trouble) != before

    def _look(self) -> None:
        text = read_file(self.path)
        if text != self._taken and self._taken is not None and text != self._coming:
            self._coming = text
            return
        if text != self._taken:
            self._taken, self._fault = text, ""
            try:
                self.meaning = self._parse(text)
            except UserError as error:
                self._fault = str(error)
        self.trouble, self._coming = self._fault, None
