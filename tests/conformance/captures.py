"""Recorded streams of real engines folded and compared with the truth: `python -m tests.conformance.captures FOLDER`

Every recording with a truth goes through the decoder, the interning and the fold, with counted copies; at every
snapshot the fold must hold the engine's own cached set: the same hashes, in the same groups, as often. N counts
snapshots, and one more for each recording: its whole stream must break no law and come from the rank in its name.
"""

from __future__ import annotations

import sys
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from kvxray_backend.sources.foreign.event_batches import decode_batch
from kvxray_backend.sources.foreign.interning import Interning
from kvxray_backend.sources.foreign.told import Batch
from kvxray_backend.sources.privacy import NameFilter
from kvxray_engine.stream.codec import decode, encode
from kvxray_engine.stream.residency_descriptor import group_of
from kvxray_engine.stream.residency_map import ResidencyMap

from tests.engine.verdict import BadInput, Verdict, read_lines, report, require

TRUTH = ".truth.jsonl.gz"
QUEUED = "still queued"
"""In the note of a snapshot whose events were not published yet: it is ahead of the stream and is left out."""

Cached = Counter[tuple[str, int]]
"""Copies by hash (hex) and group."""


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("Usage: python -m tests.conformance.captures FOLDER", file=sys.stderr)
        return 2
    try:
        paths = list(recordings(Path(arguments[0])))
    except BadInput as error:
        print(error, file=sys.stderr)
        return 2
    return report(partial(judge, path) for path in paths)


def recordings(folder: Path) -> Iterator[Path]:
    """Paths, without their endings, of the recordings with frames and a truth. Raises BadInput when there are none."""
    truths = sorted(folder.glob(f"*{TRUTH}"))
    paths = [path.with_name(path.name.removesuffix(TRUTH)) for path in truths]
    found = [path for path in paths if _file(path, "frames").exists()]
    if not found:
        raise BadInput(f"{folder} holds no recording with frames and a truth (NAME{TRUTH}).")
    yield from found


def judge(path: Path) -> Verdict:
    """Folds one recording, given as its path without ending, and looks at it at every snapshot."""
    batches, truth = _batches(path), read_lines(_file(path, "truth"))
    follower, verdict = Follower(), Verdict()
    for number, snapshot in enumerate(truth, 1):
        require(snapshot, ("last_seq", "note", "cached"), f"Line {number} of the truth of {path.name}")
        if QUEUED in snapshot["note"]:
            continue
        follower.follow(batches, snapshot["last_seq"])
        wrong = _differences(follower.cached(), _truth(snapshot, follower))
        verdict += _found(wrong, f"{path.name}, snapshot {number} {snapshot['note']!r}")
    follower.follow(batches, max(batches, default=-1))
    return verdict + _found(_broken_laws(path, follower), path.name)


class Follower:
    """One stream, followed from its first batch on."""

    def __init__(self) -> None:
        self.ranks: set[int | None] = set()
        self.faults: Counter[str] = Counter()
        self._interning = Interning("recording", NameFilter(b"recording"), self._are_gone)
        self.fold = ResidencyMap(self._interning.descriptor, store_semantics="copies")
        self._next = 0

    def follow(self, batches: dict[int, Batch], last_seq: int) -> None:
        for seq in range(self._next, last_seq + 1):
            if seq not in batches:
                raise BadInput(f"Message {seq} of a recording is missing.")
            self._take(batches[seq], seq)
        self._next = max(self._next, last_seq + 1)

    def cached(self) -> Cached:
        found: Cached = Counter()
        for place in self.fold.places():
            ordinals = self.fold.residents(place)
            copies = self.fold.copies(ordinals, place).tolist()
            for ordinal, count in zip(ordinals.tolist(), copies, strict=True):
                data = self.fold.hash_bytes(ordinal)
                assert data is not None, "a hash that is there has its bytes"
                found[data.hex(), group_of(place)] += count
        return found

    def _take(self, batch: Batch, seq: int) -> None:
        self.ranks.add(batch.rank)
        message = self._interning.intern(batch, seq, 0).message
        self.fold.apply(decode(encode(message.header, message.columns)))
        self.fold.check_integrity()
        self.faults.update(fault.kind for fault in self.fold.take_faults())

    def _are_gone(self, ordinals: Any) -> Any:
        return self.fold.are_gone(ordinals)


def _batches(path: Path) -> dict[int, Batch]:
    batches = {}
    for number, frame in enumerate(read_lines(_file(path, "frames")), 1):
        where = f"Line {number} of the frames of {path.name}"
        require(frame, ("seq", "payload_b64"), where)
        try:
            batches[frame["seq"]] = decode_batch(b64decode(frame["payload_b64"]))
        except (ValueError, TypeError) as error:
            raise BadInput(f"{where} holds no batch: {error}") from error
        if batches[frame["seq"]].oddities:
            raise BadInput(f"{where} holds what the decoder does not know: {batches[frame['seq']].oddities}")
    return batches


def _truth(snapshot: dict[str, Any], follower: Follower) -> Cached:
    """Keys are SGLang's signed numbers, or vLLM's hash and group in hexadecimal; of the hash, what the stream has."""
    found: Cached = Counter()
    for key, copies in snapshot["cached"].items():
        if _is_number(key):
            found[(int(key) & (2**64 - 1)).to_bytes(8, "big").hex(), 0] += len(copies)
        else:
            digits = 2 * follower.fold.hash_table.width
            found[key[:-8][-digits:], int(key[-8:], 16)] += len(copies)
    return found


def _is_number(key: str) -> bool:
    return len(key) <= 20 and key.lstrip("-").isdecimal()


def _differences(ours: Cached, theirs: Cached) -> list[str]:
    return [
        f"{block_hash} in group {group} is there {ours[block_hash, group]} times, in truth {theirs[block_hash, group]}"
        for block_hash, group in sorted(ours.keys() | theirs.keys())
        if ours[block_hash, group] != theirs[block_hash, group]
    ]


def _broken_laws(path: Path, follower: Follower) -> list[str]:
    wrong = [f"{count} times {kind}" for kind, count in sorted(follower.faults.items())]
    _, _, rank = path.name.partition("-rank")
    if rank and follower.ranks != {int(rank)}:
        wrong.append(f"the batches come from ranks {follower.ranks}")
    return wrong


def _found(wrong: list[str], where: str) -> Verdict:
    if not wrong:
        return Verdict(passed=1)
    more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    return Verdict(failed=1, misses=[f"{where}: {'; '.join(wrong[:3])}{more}"])


def _file(path: Path, what: str) -> Path:
    return path.with_name(f"{path.name}.{what}.jsonl.gz")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
