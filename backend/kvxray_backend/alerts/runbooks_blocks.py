"""Runbooks of the rules over blocks, their holders and requests: what only an engine that tells of them can show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvxray_backend.alerts.runbook import Runbook

_VLLM_TELLS_NO_HOLDERS: Final = (
    "vLLM's events name no holders and no requests, so this cannot be told of it; KVHeldWhileIdle is the nearest that "
    "its metrics can tell."
)
_SGLANG_TELLS_NO_HOLDERS: Final = (
    "SGLang's events name no holders and no requests, so this cannot be told of it; SGLangPoolResidual is the nearest "
    "that its metrics can tell."
)

BLOCK_RUNBOOKS: Final[Mapping[str, Runbook]] = {
    "LeakNamed": Runbook(
        meaning="Requests are over and their blocks were not given back. Room shrinks by as much, until the engine "
        "restarts.",
        confirm=(
            "The alert's link opens Live at that moment: its blocks are hatched, the finding names their holder.",
            "Click one: its history lacks the release that should follow the request's end.",
            "Overview: **Leaks** (Held by nobody living): what is really lost; whether it grows: Timelines.",
        ),
        on_vllm=(_VLLM_TELLS_NO_HOLDERS,),
        on_sglang=(_SGLANG_TELLS_NO_HOLDERS,),
    ),
    "PinNeverReleased": Runbook(
        meaning="Somebody who is no request pinned blocks and no longer uses them. They cannot be evicted, so "
        "that much less is left for requests, until the pin is let go or the engine restarts.",
        confirm=(
            "The finding names the pin, its blocks, and since when nobody has used them.",
            "The alert's link opens Live with those blocks marked; colours **Holder** show who pins more.",
            "Click a block: its history ends with the pin, and with no hit after it.",
        ),
        on_vllm=(_VLLM_TELLS_NO_HOLDERS,),
        on_sglang=(_SGLANG_TELLS_NO_HOLDERS,),
    ),
    "StaleHash": Runbook(
        meaning="A block was given to a new request and its old hash still leads to it. Whoever hits that hash reads "
        "keys and values of other tokens, maybe of another user.",
        confirm=(
            "`stale_hash` names the block, the hash, the request that got the block, and the event.",
            "`stale_hit` names who has hit it under that hash since then, and how long after: those answers first.",
            "Click the block: an allocation follows in its history, with no eviction between it and the hash.",
            "AuditResidual fires beside it where the engine counts more hashes than its events tell.",
        ),
        on_vllm=(
            "vLLM's events name no blocks, so this cannot be told of it; removals that lack show as OverCapacity.",
        ),
        on_sglang=(
            "SGLang's events name no blocks, so this cannot be told of it; removals that lack show as OverCapacity.",
        ),
    ),
    "RequestNeverGetsOn": Runbook(
        meaning="One request is taken out again and again and never gets a token further. Its client waits for "
        "nothing, and each try costs a prefill.",
        confirm=(
            "The finding names it, how often, and who got its blocks.",
            "Live, **Requests**: its status and its tokens; click it for its history.",
            "Overview: **Preemptions**: whether it is this one alone, or a storm.",
        ),
        on_vllm=(
            "vLLM does not say who is preempted, so this cannot be told of it; `vllm:request_num_preemptions` "
            "(Signals: **Times and sizes of requests**) shows that some are preempted often.",
        ),
        on_sglang=(
            "SGLang does not say who is retracted, so this cannot be told of it; SGLangRetractionStorm tells how many.",
        ),
    ),
    "AdmissionStuck": Runbook(
        meaning="The engine lives, requests wait, and none is let in. From outside it looks like a very long queue.",
        confirm=(
            "Overview: **Scheduler queue**: Running 0, Waiting above 0, the longest wait grows.",
            "The finding says whether blocks are what is missing. If so, Live: who holds them (colours: Holder).",
            "Overview: **Leaks**: blocks that nobody living needs.",
        ),
        on_vllm=(
            "vLLM's events name no requests, so this cannot be told of it; EngineNoProgress is the same by metrics.",
        ),
        on_sglang=(
            "SGLang's events name no requests, so this cannot be told of it; SGLangEvictionStall is the nearest by its "
            "metrics.",
        ),
    ),
    "AuditResidual": Runbook(
        meaning="What the engine counts and what its events add up to differ, a free block was freed, or a count fell "
        "below zero. From then on a block may be given to two requests.",
        confirm=(
            "The finding says which law broke, and at which event; or by how much what is counted differs, in which "
            "direction, and what that means.",
            "The alert's link opens that moment; one event back (comma) shows the blocks before it.",
            "History, Events around it: the last release, the last allocation of that block.",
        ),
        on_vllm=(_VLLM_TELLS_NO_HOLDERS,),
        on_sglang=(
            _SGLANG_TELLS_NO_HOLDERS,
            "Its own check when idle writes `memory leak detected!` to the log.",
        ),
    ),
}
