"""Which tier a foreign medium is: engines name the same memory differently, and in either case.

The text as told stays beside the tier. One that nobody has named here has no tier, and is shown as it is.
"""

from __future__ import annotations

from typing import Final, Literal

Tier = Literal["GPU", "CPU", "DISK", "REMOTE"]

_TIERS: Final[dict[str, Tier]] = {
    # vLLM tells none before it had tiers, and some connectors still tell none: that of the GPU.
    "": "GPU",
    "GPU": "GPU",
    "DEVICE": "GPU",
    "CPU": "CPU",
    "CPU_PINNED": "CPU",
    "CPU_TIER1": "CPU",
    "HOST": "CPU",
    "HOST_PINNED": "CPU",
    "CPU_TIER2": "DISK",
    "DISK": "DISK",
    "NVME": "DISK",
    "STORAGE": "DISK",
    "EXTERNAL": "REMOTE",
    "NETWORK": "REMOTE",
    "REMOTE": "REMOTE",
    "SHARED": "REMOTE",
}
_LEVELS: Final = ("GPU", "CPU")


def tier_of(medium: str) -> Tier | None:
    """The tier of a medium as told, None for one that is not known. Not told (empty) means the GPU."""
    return _TIERS.get(medium.upper())


def medium_of_level(level: int) -> str:
    """The medium of TensorRT-LLM's cache level: 0 is the GPU, 1 the host; any other is named after its number."""
    return _LEVELS[level] if 0 <= level < len(_LEVELS) else f"LEVEL_{level}"
