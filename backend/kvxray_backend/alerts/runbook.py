"""What a person does about a rule that fired: what it means, how to see it here, and what to do on each engine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Runbook:
    """Each part in the order in which one reads and does it. Where a rule cannot concern an engine, its part is one
    sentence that says why. The trap of the simpler rule is the rule's own.
    """

    meaning: str = ""
    confirm: tuple[str, ...] = ()
    on_vllm: tuple[str, ...] = ()
    on_sglang: tuple[str, ...] = ()
