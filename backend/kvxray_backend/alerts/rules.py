"""The one table of built-in rules: evaluated here, printed for Prometheus, told in docs/rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvxray_backend.alerts.rule import Rule
from kvxray_backend.alerts.rules_events import BLOCKS, ROUTER, STREAM
from kvxray_backend.alerts.rules_sglang import SGLANG
from kvxray_backend.alerts.rules_vllm import HELD, REUSE, ROOM

# By the heading they have in docs/rules.
TOPICS: Final[Mapping[str, tuple[Rule, ...]]] = {
    "Room for requests": ROOM,
    "What the prefix cache brings": REUSE,
    "Held, or read too late": HELD,
    "SGLang": SGLANG,
    "The router": ROUTER,
    "Blocks, by events": BLOCKS,
    "What reaches kvxray": STREAM,
}
RULES: Final[Mapping[str, Rule]] = {rule.name: rule for rules in TOPICS.values() for rule in rules}
