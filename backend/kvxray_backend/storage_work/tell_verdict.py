"""What `kvxray storage verify` prints: a line for each fault as it is found, and in the end what was looked at."""

from __future__ import annotations

import sys
import time
from typing import Any, Final

from kvxray_storage.checking.fault import Fault, Verdict

from kvxray_backend.quantities import counted

_PROGRESS_S: Final = 2.0


def telling(*, as_text: bool) -> Verdict:
    """One that says on standard error how far it is, and as text tells its faults at once."""
    return Verdict(_print_fault if as_text else lambda _: None, _Progress())


def verdict_as_json(verdict: Verdict) -> dict[str, Any]:
    """The first faults only, where there are very many."""
    return {
        "problems": [str(fault) for fault in verdict.faults],
        "num_problems": verdict.num_faults,
        "checked": dict(sorted(verdict.checked.items())),
        "not_checked": [_not_checked(what, count) for what, count in verdict.not_checked.items()],
    }


def verdict_as_text(verdict: Verdict) -> str:
    """What comes after the faults."""
    counts = ", ".join(f"{table} {count:,}" for table, count in sorted(verdict.checked.items()))
    lines = [f"rows checked: {counts or 'none'}"]
    lines += [f"not checked: {_not_checked(what, count)}" for what, count in verdict.not_checked.items()]
    end = counted(verdict.num_faults, "problem") if verdict.num_faults else "all is well"
    return "\n".join([*lines, end, ""])


def _not_checked(what: str, count: int) -> str:
    return f"{count:,} {what}" if count else what


def _print_fault(fault: Fault) -> None:
    sys.stdout.write(f"{fault}\n")


class _Progress:
    """At most a line in so many seconds."""

    def __init__(self) -> None:
        self._told_at = time.monotonic()

    def __call__(self, where: str) -> None:
        now = time.monotonic()
        if now - self._told_at >= _PROGRESS_S:
            self._told_at = now
            sys.stderr.write(f"checking {where} …\n")
