"""How many files and sockets this process may have open: as many as the system grants, each engine takes a dozen."""

from __future__ import annotations

import sys
from typing import Final

ENOUGH: Final = 65_536


def allow_many_files() -> None:
    """Raises the soft limit towards the hard one, which is the operator's; does nothing where there are none."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if hard == resource.RLIM_INFINITY else min(ENOUGH, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            return
