"""Recorded workloads of vLLM's scheduler fed to ours: `python -m tests.engine.captures FOLDER`

Our engine is given the same requests, sampled tokens, aborts and resets as vLLM was, in the same order, and must be in
the same state at every snapshot: blocks, references, hashes, free order, block tables, statuses, preemptions, counters,
tokens scheduled, and the events sent so far. N counts snapshots; a recording is left at its first miss, and what comes
after it counts as failed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from kvxray_engine.block_pool import FreeOrder
from kvxray_engine.clock import VirtualClock
from kvxray_engine.engine import EngineConfig, LLMEngine
from kvxray_engine.null_model import NullModel
from kvxray_engine.request import NewRequest, Request
from kvxray_engine.step_batch import NOT_SAMPLED, SamplingParams, ScheduledSequence
from kvxray_engine.stream.recorder import Recorder
from kvxray_engine.waiting_line import SchedulingPolicy

from tests.engine.folded_messages import FoldedMessages
from tests.engine.recording import Event, Recording, read_recording, recordings
from tests.engine.verdict import Verdict, differences, report

TAKEN_AFTER = {"abort": "finish", "reset": "reset_prefix_cache"}
"""Snapshots whose note begins so were taken after such an operation, all others right after a step."""

TWO_ENDED_QUEUE_SINCE = (0, 24)
TAGGED_KEYS_SINCE = (0, 12)
"""Older releases hash adapters and salts in another way: their blocks compare, their keys do not."""


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("Usage: python -m tests.engine.captures FOLDER", file=sys.stderr)
        return 2
    return report(partial(judge, path) for path in recordings(Path(arguments[0])))


def judge(path: Path) -> Verdict:
    """Replays one recording, given as its path without ending."""
    recording = read_recording(path)
    player = Player(recording)
    for index, snapshot in enumerate(recording.truth):
        wrong = player.play_to(snapshot)
        if wrong:
            what = f"{recording.name}, step {snapshot['step']} {snapshot['note']!r}: {'; '.join(wrong)}"
            return Verdict(index, len(recording.truth) - index, [what])
    return Verdict(passed=len(recording.truth))


class RecordedModel(NullModel):
    """Samples what vLLM's run sampled, and keeps what it was asked to compute."""

    def __init__(self, config: dict[str, Any], clock: VirtualClock) -> None:
        super().__init__(config["num_blocks"], config["block_size"], 1 << 20, config["max_model_len"], clock=clock)
        self.sampled: dict[str, list[int]] = {}
        self.scheduled: list[tuple[str, int]] = []

    def execute(self, batch: Sequence[ScheduledSequence]) -> list[int]:
        super().execute(batch)
        self.scheduled = [(sequence.request_id, len(sequence.token_ids)) for sequence in batch]
        return [(self.sampled.get(sequence.request_id) or [NOT_SAMPLED])[0] for sequence in batch]


class Player:
    """Our engine on its way through one recording."""

    def __init__(self, recording: Recording) -> None:
        config, clock = recording.config, VirtualClock()
        self.recording = recording
        self.model = RecordedModel(config, clock)
        order = FreeOrder.unhashed_first if recording.release >= TWO_ENDED_QUEUE_SINCE else FreeOrder.all_appended
        policy = SchedulingPolicy(config.get("policy", "fcfs"))
        limits = EngineConfig(
            config["max_num_seqs"], config["max_num_batched_tokens"], free_order=order, policy=policy,
            watermark=config.get("watermark", 0.0),
        )  # fmt: skip
        self.engine = LLMEngine(self.model, limits, Recorder(clock), clock)
        self.engine.prefix_cache.none_hash = bytes.fromhex(config["none_hash"])
        self.messages = FoldedMessages(self.engine.recorder, self.engine.descriptor())
        self.compares_keys = recording.release >= TAGGED_KEYS_SINCE
        self.told: list[Event] = []
        self.requests: dict[int, Request] = {}
        self.done = 0  # operations
        self.steps = 0

    def play_to(self, snapshot: dict[str, Any]) -> list[str]:
        """Does what was done up to a snapshot; a few words for each difference from it."""
        after = next((op for word, op in TAKEN_AFTER.items() if snapshot["note"].startswith(word)), None)
        ops = self.recording.ops
        try:
            while self.steps < snapshot["step"] or (after and ops[self.done - 1]["op"] != after):
                if self.done == len(ops):
                    return ["the inputs end before this snapshot"]
                self.done += 1
                wrong = self._play(ops[self.done - 1])
                if wrong:
                    return wrong
            self._follow()
            self.engine.check_integrity()
            self.messages.check_against(self.engine.pool)
        except AssertionError as error:
            return [f"a law is broken: {error}"]
        return self._differences(snapshot)

    def _play(self, op: dict[str, Any]) -> list[str]:
        if op["op"] == "step":
            return self._step(op)
        if op["op"] == "reset_prefix_cache":
            return differences({"ok": self.engine.reset_prefix_cache()}, op)
        if op["op"] == "add":
            self._add(op)
        else:
            for request_id in op["ids"]:
                self.engine.abort_request(request_id)
            self.engine.take_in()
        return []

    def _add(self, op: dict[str, Any]) -> None:
        lora_name, lora_id, lora_path = op["lora"] or ("", 0, "")
        self.engine.add_request(
            NewRequest(
                op["id"], op["prompt_token_ids"], SamplingParams(max_tokens=op["max_tokens"], ignore_eos=True),
                priority=op.get("priority", 0), lora_name=lora_name, lora_id=lora_id, lora_path=lora_path,
                cache_salt=op["cache_salt"] or "",
            )
        )  # fmt: skip
        self.engine.take_in()
        self.requests |= {request.ordinal: request for request in self.engine.scheduler.waiting}

    def _step(self, op: dict[str, Any]) -> list[str]:
        self.steps += 1
        self.model.sampled, self.model.scheduled = op["sampled"], []
        self.engine.step()
        self._follow()
        return differences({"scheduled": self.model.scheduled}, {"scheduled": list(op["scheduled"].items())})

    def _follow(self) -> None:
        self.engine.recorder.flush()
        self.told += self.messages.follow(self.requests, self.recording.has_int_hashes)

    def _differences(self, snapshot: dict[str, Any]) -> list[str]:
        living = {name: one for name, one in snapshot["requests"].items() if not one["status"].startswith("FINISHED")}
        theirs = {**snapshot, "requests": living}
        if not self.compares_keys:
            theirs["blocks"] = [[block, ref, key is not None] for block, ref, key in snapshot["blocks"]]
        wrong = differences(self._blocks() | self._line() | self._counters(snapshot["prefix_stats"]), theirs)
        if self.compares_keys and self.recording.sent is not None and "still queued" not in snapshot["note"]:
            wrong += self._events_differ(self.recording.sent_up_to(snapshot["last_seq"]))
        return wrong

    def _blocks(self) -> dict[str, Any]:
        pool = self.engine.pool
        keys = [one and f"{one.hex()}00000000" for one in pool.block_hash]  # the number of the group follows the hash
        carriers: dict[str, list[int]] = {}
        for block, key in enumerate(keys):
            if key:
                carriers.setdefault(key, []).append(block)
        blocks = [[block, ref, key] for block, (ref, key) in enumerate(zip(pool.ref_cnt, keys, strict=True))]
        if not self.compares_keys:
            blocks = [[block, ref, key is not None] for block, ref, key in blocks]
        return {
            "num_free": pool.num_free,
            "usage": pool.usage,
            "free_queue": pool.free_queue(),
            "blocks": [[block, ref, key] for block, ref, key in blocks if ref or key],
            **({"cached": carriers} if self.compares_keys else {}),
        }

    def _line(self) -> dict[str, Any]:
        scheduler = self.engine.scheduler
        return {
            "requests": {request.request_id: _as_vllm(request) for request in scheduler.requests()},
            "running": [request.request_id for request in scheduler.running],
            "num_waiting": len(scheduler.waiting),
        }

    def _counters(self, theirs: dict[str, Any]) -> dict[str, Any]:
        """vLLM's are empty until a step reported; it counts admissions after a preemption apart."""
        stats = self.engine.prefix_cache.stats
        ours = {
            "requests": stats.requests - stats.readmitted_requests,
            "queries": stats.queried_tokens - stats.readmitted_queried_tokens,
            "hits": stats.hit_tokens - stats.readmitted_hit_tokens,
            "preempted_requests": stats.readmitted_requests,
        }
        return {"prefix_stats": theirs | ours} if theirs else {}

    def _events_differ(self, theirs: list[Event]) -> list[str]:
        """Compares the fields that the release sends."""
        known = [{name: ours.get(name) for name in sent} for ours, sent in zip(self.told, theirs, strict=False)]
        if known == theirs and len(self.told) == len(theirs):
            return []
        same = [ours == sent for ours, sent in zip(known, theirs, strict=False)]
        at = same.index(False) if False in same else len(same)
        return [f"{len(self.told)} events are told, vLLM sent {len(theirs)}, the first difference is number {at}"]


def _as_vllm(request: Request) -> dict[str, Any]:
    return {
        "status": request.status.name.upper(),
        "num_tokens": request.num_tokens,
        "computed": request.num_computed_tokens,
        "preemptions": request.num_preemptions,
        "block_ids": [request.block_table],
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
