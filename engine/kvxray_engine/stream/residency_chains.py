"""Which hashes can be reached from the root of their chain: every block before them is there too. Pure array work."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kvxray_engine.stream.columns import I8, U4
from kvxray_engine.stream.schema import NO_ORDINAL, UNKNOWN_U4

REACHABLE: Final = 1
UNREACHABLE: Final = 2
UNTOLD: Final = 3
"""Some block on the way to the root was never told of, so that nothing can be said."""

_MAX_JUMPS: Final = 32
"""Each doubles the way that was gone: a longer chain has no room in 32 bits, so what is left then goes in circles."""


def reach(ordinals: U4, parents: U4, is_there: NDArray[np.bool_], *, is_all_told: bool) -> NDArray[np.uint8]:
    """REACHABLE, UNREACHABLE or UNTOLD for each of these hashes (sorted, each once) as far as its own place in the
    chain goes; a hash that is not there itself is UNREACHABLE.

    parents: ordinal, NO_ORDINAL of a root, UNKNOWN_U4 not told. is_all_told False: a parent that is not among
    `ordinals` may be there all the same.
    """
    n = len(ordinals)
    ends = np.array([REACHABLE, UNREACHABLE, UNTOLD], np.uint8)
    reached, broken, untold = n, n + 1, n + 2
    way: I8 = np.arange(n + 3)
    at = np.minimum(np.searchsorted(ordinals, parents), max(n - 1, 0))
    is_known = ordinals[at] == parents if n else np.zeros(0, bool)
    way[:n] = np.where(is_known, at, broken if is_all_told else untold)
    way[:n][parents == NO_ORDINAL] = reached
    way[:n][parents == UNKNOWN_U4] = untold
    way[:n][~is_there] = broken
    for _ in range(_MAX_JUMPS):
        further = way[way]
        if (further == way).all():
            break
        way = further
    end = np.where(way[:n] >= n, way[:n], broken) - n
    found: NDArray[np.uint8] = ends[end]
    return found
