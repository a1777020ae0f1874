"""One recording of vLLM's scheduler: what was done, its state afterwards, and what it sent. Read and checked here."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec

from tests.engine.verdict import BadInput, read_lines, require

INPUTS = ".inputs.jsonl.gz"
CONFIG = ("none_hash", "num_blocks", "block_size", "max_num_batched_tokens", "max_num_seqs", "max_model_len", "hash")
SNAPSHOT = (
    "step", "last_seq", "note", "num_free", "usage", "free_queue", "blocks", "cached", "requests", "running",
    "num_waiting", "prefix_stats",
)  # fmt: skip
FIELDS = {
    "add": ("id", "prompt_token_ids", "max_tokens", "lora", "cache_salt"),
    "finish": ("ids",),
    "reset_prefix_cache": ("ok",),
    "step": ("scheduled", "sampled"),
}
ARRAY_FIELDS = {
    "BlockStored": (
        "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium", "lora_name", "extra_keys",
        "group_idx", "kv_cache_spec_kind",
    ),
    "BlockRemoved": ("block_hashes", "medium", "group_idx"),
    "AllBlocksCleared": (),
}  # fmt: skip
"""Before 0.24 events were arrays: the tag, then these in order, as many as the release knew."""

Event = dict[str, Any]


@dataclass
class Recording:
    """`config` and `ops`: what was done. `truth`: vLLM's state, snapshot by snapshot. `sent`: events of each message by
    seq, as maps of the fields that the release has; None when no frames were kept."""

    name: str
    release: tuple[int, int]
    config: dict[str, Any]
    ops: list[dict[str, Any]]
    truth: list[dict[str, Any]]
    sent: dict[int, list[Event]] | None

    def sent_up_to(self, seq: int) -> list[Event]:
        assert self.sent is not None, "this recording has no frames"
        return [event for one in range(seq + 1) for event in self.sent.get(one, [])]

    @property
    def has_int_hashes(self) -> bool:
        events = chain.from_iterable((self.sent or {}).values())
        hashes = chain.from_iterable(event.get("block_hashes", ()) for event in events)
        return isinstance(next(hashes, 0), int)


def recordings(folder: Path) -> Iterator[Path]:
    """Paths, without their endings, of the recordings that have inputs. Raises BadInput when there are none."""
    paths = sorted(folder.glob(f"*{INPUTS}"))
    if not paths:
        raise BadInput(f"{folder} holds no recording with inputs (NAME{INPUTS}).")
    for path in paths:
        yield path.with_name(path.name.removesuffix(INPUTS))


def read_recording(path: Path) -> Recording:
    """Reads NAME.inputs, NAME.truth and, where they are, NAME.frames. Raises BadInput."""
    inputs, truth = read_lines(_file(path, "inputs")), read_lines(_file(path, "truth"))
    _check(inputs, truth, path.name)
    return Recording(path.name, _release(path.name), inputs[0], inputs[1:], truth, _sent(_file(path, "frames")))


def _file(path: Path, what: str) -> Path:
    return path.with_name(f"{path.name}.{what}.jsonl.gz")


def _check(inputs: list[Any], truth: list[Any], where: str) -> None:
    if not inputs or not truth:
        raise BadInput(f"{where} is empty.")
    require(inputs[0], CONFIG, f"The first line of {where}")
    if inputs[0]["hash"] != "sha256_cbor":
        raise BadInput(f"{where} hashes with {inputs[0]['hash']}; only sha256_cbor is known.")
    for number, op in enumerate(inputs[1:], 2):
        at = f"Line {number} of the inputs of {where}"
        require(op, ("op",), at)
        if op["op"] not in FIELDS:
            raise BadInput(f"{at} is an unknown {op['op']!r}.")
        require(op, FIELDS[op["op"]], at)
    for number, snapshot in enumerate(truth, 1):
        require(snapshot, SNAPSHOT, f"Line {number} of the truth of {where}")


def _release(name: str) -> tuple[int, int]:
    """(major, minor) of `vllm-0.32.0-plain`."""
    try:
        major, minor, *_ = name.split("-")[1].split(".")
        return int(major), int(minor)
    except (IndexError, ValueError) as error:
        raise BadInput(f"{name} does not tell its release: it is called like vllm-0.32.0-plain.") from error


def _sent(path: Path) -> dict[int, list[Event]] | None:
    if not path.exists():
        return None
    sent: dict[int, list[Event]] = {}
    for number, frame in enumerate(read_lines(path), 1):
        require(frame, ("seq", "payload_b64"), f"Line {number} of {path.name}")
        try:
            _, events, *_ = msgspec.msgpack.decode(b64decode(frame["payload_b64"]))
        except ValueError as error:
            raise BadInput(f"Line {number} of {path.name} holds no message: {error}") from error
        sent[frame["seq"]] = [event if isinstance(event, dict) else _as_map(*event) for event in events]
    return sent


def _as_map(tag: str, *values: Any) -> Event:
    return {"type": tag, **dict(zip(ARRAY_FIELDS[tag], values, strict=False))}
