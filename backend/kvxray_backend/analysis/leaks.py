"""Leaks: holds whose holder is over, and what is said of them. Pure.

A hold leaks when its request (of a sequence: the request it belongs to) has finished, been aborted or failed longer ago
than the grace, 3 seconds and 2 steps, because the step that ends a request may be told before the release; or when it
is a lease past its deadline. An engine with nothing left to do takes no more steps, so then time alone decides. A block
that also has a living holder stays shared and carries one leaked hold; only a block all of whose holders leak is lost
to everybody else.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np
from kvxray_engine.stream.block_map import BlockMap
from kvxray_engine.stream.columns import U4
from numpy.typing import NDArray

from kvxray_backend.analysis.finding import MAX_SUBJECTS, Finding, Subjects
from kvxray_backend.engine_clock import age_s

ENDED_S_AGO: Final = "ended_s_ago"
"""The one number of a leak that grows with time alone; not told where the clock was set back since."""

_BEGINS: Final = re.compile(
    r"Leak: (.+, (?:finished|aborted|failed|expired))(?= [0-9]+ s ago,|, still holds |, held )", re.DOTALL
)
_AGO: Final = re.compile(r" [0-9]+ s ago(?=, still holds )")


@dataclass(frozen=True, slots=True)
class Leak:
    """What one holder keeps after its end. `why`: finished, aborted, failed or expired.

    `blocks`: ids, each once; `blocks_only`: those of them all of whose holders leak. `bytes_per_block`: 0 = not known.
    """

    holder: int
    request_id: str
    why: str
    ended_ns: int
    blocks: U4
    blocks_only: U4
    bytes_per_block: int = 0

    def finding(self, source: str, epoch: int, seq: int, now_ns: int) -> Finding:
        when_over, when_engine_ended = leak_endings(f"{self._who}, {self.why},", len(self.blocks))
        return Finding(
            id=leak_id(source, epoch, self.holder),
            kind="leak",
            severity="critical",
            source=source,
            epoch=epoch,
            seq0=seq,
            seq1=seq,
            time_ns=now_ns,
            subjects=Subjects(
                blocks=tuple(int(block) for block in self.blocks[:MAX_SUBJECTS]), requests=(self.request_id,)
            ),
            numbers=self._numbers(now_ns),
            sentence=self.sentence(now_ns),
            mark=_mark(f"{self._who}, {self.why},"),
            sentence_when_over=when_over,
            sentence_when_engine_ended=when_engine_ended,
        )

    def aged(self, finding: Finding, now_ns: int) -> Finding:
        """What was made of it before, as it is told now."""
        return finding.model_copy(update={"sentence": self.sentence(now_ns), "numbers": self._numbers(now_ns)})

    def sentence(self, now_ns: int) -> str:
        ago = age_s(now_ns, self.ended_ns)
        when = f" {ago:.0f} s ago" if ago is not None else ""
        return f"Leak: {self._who}, {self.why}{when}, still holds {_blocks(len(self.blocks))}, {self._how_alone()}."

    def _numbers(self, now_ns: int) -> dict[str, int | float]:
        numbers: dict[str, int | float] = {"blocks": len(self.blocks), "blocks_only": len(self.blocks_only)}
        if self.bytes_per_block:
            numbers["bytes_only"] = len(self.blocks_only) * self.bytes_per_block
        ago = age_s(now_ns, self.ended_ns)
        return numbers if ago is None else numbers | {ENDED_S_AGO: round(ago, 3)}

    @property
    def _who(self) -> str:
        return f"{'lease' if self.why == 'expired' else 'request'} {self.request_id}"

    def _how_alone(self) -> str:
        """How many of the blocks are lost to everybody else."""
        num, num_only = len(self.blocks), len(self.blocks_only)
        which = "" if num == 1 else "all of them " if num_only in (0, num) else f"{num_only:,} of them "
        if not num_only:
            return f"{which}held by others too"
        size = f" ({_size(num_only * self.bytes_per_block)})" if self.bytes_per_block else ""
        return f"{which}held by nobody living{size}"


def leak_id(source: str, epoch: int, holder: int) -> str:
    return f"leak:{source}:{epoch}:{holder}"


def holder_of(finding: Finding) -> int:
    """The holder that a leak is about."""
    return int(finding.id.rsplit(":", 1)[1])


def leak_endings(who: str, num_blocks: int) -> tuple[str, str]:
    """What a leak is told as once it is over, by itself or with its engine; braces in `who` are no place to fill."""
    who, what = who.replace("{", "{{").replace("}", "}}"), _blocks(num_blocks)
    return (
        f"Leak: {who} held {what} after its end; released {{lasted}} after it was noticed.",
        f"Leak: {who} held {what} until the engine ended.",
    )


def lasting(finding: Finding) -> Finding:
    """It, to be kept and read later: without how long ago something was, which would stand still."""
    if finding.kind != "leak":
        return finding
    numbers = {name: number for name, number in finding.numbers.items() if name != ENDED_S_AGO}
    return finding.model_copy(update={"sentence": _AGO.sub("", finding.sentence, count=1), "numbers": numbers})


def mark_of(sentence: str) -> str:
    """What to say of the moment at which a leak was found, from what was stored of it, maybe much later; else ""."""
    told = _BEGINS.match(sentence)
    return _mark(f"{told[1]},") if told else ""


def _mark(who: str) -> str:
    return f"Leak: {who} still holds blocks."


def _blocks(num: int) -> str:
    return "1 block" if num == 1 else f"{num:,} blocks"


def _size(num_bytes: int) -> str:
    size, unit = float(num_bytes), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{num_bytes:,} bytes" if unit == "bytes" else f"{size:,.1f} {unit}"


def by_holder(blocks: U4, holders: U4) -> dict[int, U4]:
    """The blocks of each holder, in order and each once. One sort for all of them: there may be thousands."""
    holds = np.unique((holders.astype(np.uint64) << np.uint64(32)) | blocks)
    whose, firsts = np.unique(holds >> np.uint64(32), return_index=True)
    theirs = np.split((holds & np.uint64(0xFFFFFFFF)).astype(np.uint32), firsts[1:])
    return dict(zip(whose.tolist(), theirs, strict=False))


def held_only(block_map: BlockMap, blocks: U4, holders: U4) -> tuple[U4, U4]:
    """Those of these holds whose blocks have no others."""
    only = are_held_only(block_map, blocks)
    return blocks[only], holders[only]


def are_held_only(block_map: BlockMap, blocks: U4) -> NDArray[np.bool_]:
    """Of each of these holds, named by its block, whether these are all that its block has."""
    held, at, holds = np.unique(blocks, return_inverse=True, return_counts=True)
    only: NDArray[np.bool_] = (holds == block_map.ref[held])[at]
    return only


def name_of(block_map: BlockMap, holder: int) -> str:
    name = block_map.requests.names.get(holder)
    return name.id if name is not None else f"#{holder}"
