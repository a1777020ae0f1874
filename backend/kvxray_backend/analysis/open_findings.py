"""What is open as of one look. How long ago something was changes with every look, and is told when somebody reads it:
there may be thousands, and mostly nobody does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from kvxray_backend.analysis.finding import Finding

Aged = Callable[[Finding], Finding]
"""Makes of a finding what is told of it as of a look."""


class OpenFindings:
    """Immutable for whoever reads. `found`: as each was made or changed last, which is all that matters to those who
    ask for ids, kinds or subjects.
    """

    def __init__(self, found: tuple[Finding, ...] = (), aged: Aged | None = None) -> None:
        """aged: None where nothing has an age."""
        self.found: Final = found
        self._aged = aged
        self._told = found if aged is None else None

    @property
    def told(self) -> tuple[Finding, ...]:
        """All of them as of the look; made once."""
        if self._told is None:
            # Two readers may both make them: they make the same.
            self._told = tuple(self.tell(self.found))
        return self._told

    def tell(self, some: Iterable[Finding]) -> list[Finding]:
        """Some of `found`, as of the look."""
        return [*some] if self._aged is None else [self._aged(finding) for finding in some]
