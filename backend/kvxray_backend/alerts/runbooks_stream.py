"""Runbooks of the rules about what reaches kvxray."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvxray_backend.alerts.runbook import Runbook

_ENDPOINT: Final = '--kv-events-config \'{"publisher": "zmq", "endpoint": "tcp://*:5557"}\''

STREAM_RUNBOOKS: Final[Mapping[str, Runbook]] = {
    "StreamStale": Runbook(
        meaning="What the page shows of this engine is old, though it is said to be so. Findings and rules that need "
        "events see nothing meanwhile.",
        confirm=(
            "Overview: **Stream health**: the stream, and since when it is so. Live says Stale, and pales.",
            "Signals: **Queue and requests** (Generated tokens): the engine does work.",
            "Attach an engine, *Test the connection*: what is heard at that address now.",
        ),
        on_vllm=(
            "Restarted with events? `--kv-events-config` with `enable_kv_cache_events` true; prefix caching on.",
            "A concrete host in `endpoint` makes the engine dial out: then kvxray listens there (`tcp://*:5557`).",
            "With data parallelism each rank has a port of its own, one further than the one before.",
        ),
        on_sglang=(
            f"Restarted with `{_ENDPOINT}`? Its radix cache must be on (no `--disable-radix-cache`).",
            "The same for ports: one for each data-parallel rank.",
        ),
    ),
    "ReplayGap": Runbook(
        meaning="Stores and removals were lost for good. Of an engine of hashes, what is cached is known in part until "
        "it clears its cache or is attached anew; of kvxray's own, a snapshot mends the present, not the past.",
        confirm=(
            "Overview: **Stream health**: Gaps.",
            "History, Findings: `seq_gap` or `gap`, from which number to which.",
            "Live: the tiles that are marked as spoilt.",
        ),
        on_vllm=(
            'Give it a replay: `"replay_endpoint": "tcp://*:5558"` in `--kv-events-config`, and `--replay` here.',
            "It keeps `buffer_steps` batches (10,000): more, where kvxray is away for longer.",
            "`hwm` (100,000) bounds what waits for a slow reader; beyond it ZeroMQ drops without a word.",
        ),
        on_sglang=("The same fields in its `--kv-events-config`: `replay_endpoint`, `buffer_steps`, `hwm`.",),
    ),
    "EventsUnreadable": Runbook(
        meaning="The engine speaks a dialect with words that kvxray does not know. Those events are left out, "
        "everything else is read.",
        confirm=(
            "History, Findings: `unknown_or_partial_event` names the event and the field.",
            "`kvxray record tcp://host:5557 run.frames.jsonl.gz --seconds 30`, then `kvxray inspect` of the file.",
            "Live, **What can be known**: what is missing for it.",
        ),
        on_vllm=(
            "Read are all releases from 0.10.2 to 0.33, in both encodings; a later one may have added an event.",
            "A connector of others may publish on the same socket: say `--topic` to hear the engine alone.",
        ),
        on_sglang=(
            "Read is 0.5.23 and what is encoded alike. Pairs of tokens (EAGLE) are read; something else is news.",
        ),
    ),
    "EventsDropped": Runbook(
        meaning="The publisher could not keep up, and the recorder let events go rather than hold the engine up. A "
        "snapshot follows by itself and makes the picture whole again.",
        confirm=(
            "Overview: **Stream health**: Drops.",
            "Live: blocks turn unknown, and known again at the next snapshot.",
            "History, Findings: `drops`, with how many.",
        ),
        on_vllm=("Only kvxray's own engine counts what it dropped: of vLLM a gap in numbers says it (ReplayGap).",),
        on_sglang=("Only kvxray's own engine counts what it dropped: of SGLang a gap in numbers says it (ReplayGap).",),
    ),
    "EventsNotStored": Runbook(
        meaning="The database refuses what is to be written. The live page goes on; what comes waits in memory, "
        "within bounds. What was acknowledged is safe.",
        confirm=(
            "Live and Overview: the finding `storage` says what the database answered.",
            "`kvxray storage stats`: size, oldest and newest event.",
            "`df -h` of the disk, or the log of PostgreSQL.",
        ),
        on_vllm=("It is kvxray's database: nothing is to be done at the engine, which goes on untouched.",),
        on_sglang=("It is kvxray's database: nothing is to be done at the engine, which goes on untouched.",),
    ),
}
