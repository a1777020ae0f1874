"""Media of all engines as four tiers; what is not known keeps its name and has none."""

from __future__ import annotations

import pytest
from kvxray_backend.sources.foreign.media import medium_of_level, tier_of

TIERS = {
    "GPU": ["GPU", "gpu", "", "device"],
    "CPU": ["CPU", "cpu", "CPU_PINNED", "Cpu_Tier1", "host_pinned"],
    "DISK": ["DISK", "STORAGE", "NVMe", "CPU_TIER2", "disk"],
    "REMOTE": ["EXTERNAL", "NETWORK", "REMOTE", "SHARED", "external"],
}


@pytest.mark.parametrize(("medium", "tier"), [(medium, tier) for tier, media in TIERS.items() for medium in media])
def test_each_engines_word_for_a_tier_is_known(medium: str, tier: str) -> None:
    assert tier_of(medium) == tier


@pytest.mark.parametrize("medium", ["TAPE", "GPU0", " GPU", "LEVEL_2"])
def test_a_medium_that_nobody_knows_has_no_tier(medium: str) -> None:
    assert tier_of(medium) is None


def test_the_levels_of_tensorrt_llm_are_media() -> None:
    assert [medium_of_level(level) for level in range(3)] == ["GPU", "CPU", "LEVEL_2"]
