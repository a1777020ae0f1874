"""An inspection as people read it: aligned, at most 100 columns, what the wire cannot tell said as such. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Final

from kvxray_backend.inspection.inspection_report import (
    EventCount,
    FileReport,
    FindingReport,
    GroupReport,
    Inspection,
    MediumReport,
    StreamReport,
)
from kvxray_backend.inspection.prefix_tree import Chains, Prefix
from kvxray_backend.quantities import counted, share_text

WIDTH: Final = 100
MAX_STREAMS: Final = 64
MAX_GROUPS: Final = 8
_LABEL: Final = 16
_HASH_DIGITS: Final = 16


def text_of(inspection: Inspection) -> str:
    """Lines with their ends. Names come from outside: what a terminal would obey is replaced."""
    lines: list[str] = []
    for file in inspection.files:
        lines += [*([""] if lines else []), *_file(file)]
    return "".join(f"{_harmless(line.rstrip())}\n" for line in lines)


def _file(file: FileReport) -> Iterator[str]:
    bad = f", {file.num_bad:,} of them unreadable" if file.num_bad else ""
    yield from _wrapped(f"{file.file}: {file.format}, {counted(file.num_lines, 'line')}{bad}", 0)
    if file.is_cut:
        yield "The file is cut off: what follows is up to its last whole line."
    for note in file.notes:
        yield from _wrapped(note, 0)
    for stream in file.streams[:MAX_STREAMS]:
        yield ""
        yield from _stream(stream)
    left = len(file.streams) - MAX_STREAMS
    if left > 0:
        yield ""
        yield f"… and {counted(left, 'more stream')}: --json tells of all."


def _stream(stream: StreamReport) -> Iterator[str]:
    rank = "" if stream.rank is None else f", rank {stream.rank}"
    yield from _wrapped(f"{stream.name}{rank}", 0)
    yield from _fact("dialect", stream.dialect)
    yield from _fact("batches", _batches(stream))
    yield from _fact("time", _time(stream))
    yield from _fact("events", _events(stream.events))
    for group in stream.groups[:MAX_GROUPS]:
        yield from _fact("group" if len(stream.groups) == 1 else f"group {group.group}", _group(group))
    if len(stream.groups) > MAX_GROUPS:
        yield from _fact("", f"… and {counted(len(stream.groups) - MAX_GROUPS, 'more group')}")
    yield from _fact("capacity", _capacity(stream))
    yield from _media(stream)
    yield from _chains(stream)
    yield from _fact("removals", _removals(stream))
    yield from _findings(stream.findings)
    yield from _fact("not observable", ", ".join(stream.not_observable))


def _batches(stream: StreamReport) -> str:
    if stream.first_seq is None or stream.last_seq is None:
        return "none"
    span = f"{stream.first_seq:,} to {stream.last_seq:,}"
    if stream.num_lives > 1:
        return f"{stream.num_batches:,} in {stream.num_lives} lives of the engine, the last of them {span}"
    return f"{stream.num_batches:,}, {span}"


def _time(stream: StreamReport) -> str:
    if stream.lasted_s is None:
        return "not observable: this dialect tells none"
    lasted = f"{stream.lasted_s:,.3f} s"
    if stream.began is None or stream.ended is None:
        return f"{lasted}; the hour is not observable: this dialect counts from when the recording began"
    return f"{stream.began} to {stream.ended}, {lasted}"


def _events(events: dict[str, EventCount]) -> str:
    words = [
        f"{count.events:,} {kind}" + (f" ({_hashes(count.hashes)})" if count.hashes else "")
        for kind, count in events.items()
    ]
    return ", ".join(words) or "none"


def _group(group: GroupReport) -> str:
    kind = group.kind or "kind not told"
    window = f", window of {group.window:,} tokens" if group.window else ""
    size = f"blocks of {group.block_size:,} tokens" if group.block_size else "block size not told"
    return f"{kind}{window}, {size}"


def _capacity(stream: StreamReport) -> str:
    told = [f"{one.num_blocks:,} blocks on {one.medium}" for one in stream.capacity if one.num_blocks is not None]
    return ", ".join(told) or "not told by the stream"


def _media(stream: StreamReport) -> Iterator[str]:
    """A table of what is where."""
    if not stream.media:
        yield from _fact("cached", "nothing was told of")
        return
    rows = [("medium", "group", "hashes", "certain", "maybe", "copies", "tokens"), *map(_medium, stream.media)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for number, row in enumerate(rows):
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        yield f"  {'cached' if not number else '':<{_LABEL}}{'  '.join(cells)}"


def _medium(medium: MediumReport) -> tuple[str, ...]:
    numbers = (medium.group, medium.certain + medium.maybe, medium.certain, medium.maybe, medium.copies)
    certain, maybe = medium.tokens_certain, medium.tokens_maybe
    if certain is None or maybe is None:
        tokens = "not told"
    else:
        tokens = f"{certain:,}" if not maybe else f"{certain:,} to {certain + maybe:,}"
    return (_cut(medium.medium, 24), *(f"{number:,}" for number in numbers), tokens)


def _chains(stream: StreamReport) -> Iterator[str]:
    shown = [chains for chains in stream.chains if chains.num_blocks]
    for chains in shown[:MAX_GROUPS]:
        yield from _fact("chains" if len(shown) == 1 else f"chains, group {chains.group}", _of_chains(chains))
        for prefix in chains.shared:
            yield from _prefix(prefix, 0)
    if not shown:
        yield from _fact("chains", "none")


def _of_chains(chains: Chains) -> str:
    words = [
        f"{counted(chains.num_ends, 'chain')} from {counted(chains.num_roots, 'root')}, the longest of "
        f"{counted(chains.longest, 'block')}"
    ]
    if chains.num_cut:
        words.append(f"{counted(chains.num_cut, 'piece')} cut off, since the block before is gone or was never told of")
    if chains.num_untold:
        words.append(f"{counted(chains.num_untold, 'block')} of which the block before is not told")
    if chains.shared:
        words.append("shared beginnings:")
    return "; ".join(words)


def _prefix(prefix: Prefix, level: int) -> Iterator[str]:
    name = f"{'  ' * level}{_cut(prefix.last, _HASH_DIGITS)}"
    said = counted(prefix.num_blocks, "block") + (f" after {prefix.num_before:,}" if prefix.num_before else "")
    if prefix.num_branches:
        said += f", {prefix.num_behind:,} behind in {prefix.num_branches:,} branches"
    yield f"  {'':<{_LABEL}}{name:<{_HASH_DIGITS + 6}}{said}"
    for branch in prefix.branches:
        yield from _prefix(branch, level + 1)
    left = prefix.num_branches - len(prefix.branches)
    if left > 0 and prefix.branches:
        yield f"  {'':<{_LABEL}}{'  ' * (level + 1)}… and {left:,} more"


def _removals(stream: StreamReport) -> str:
    if not stream.num_removed:
        return "none"
    share = stream.num_returned / stream.num_removed
    return f"{_hashes(stream.num_removed)}; stored again later: {stream.num_returned:,} ({share_text(share)})"


def _findings(findings: tuple[FindingReport, ...]) -> Iterator[str]:
    if not findings:
        yield from _fact("findings", "none")
        return
    for number, finding in enumerate(findings):
        yield from _fact(
            "findings" if not number else "", f"{finding.severity}: {finding.kind}, {_times(finding.count)}"
        )
        for sentence in finding.sentences:
            yield from _wrapped(sentence, _LABEL + 4)


def _hashes(number: int) -> str:
    return f"{number:,} {'hash' if number == 1 else 'hashes'}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _fact(label: str, text: str) -> Iterator[str]:
    """A label and what is said of it, further lines below the first."""
    indent = " " * (_LABEL + 2)
    yield from textwrap.wrap(
        text, WIDTH, initial_indent=f"  {label:<{_LABEL}}", subsequent_indent=indent, break_on_hyphens=False
    )


def _wrapped(text: str, indent: int) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=" " * indent, subsequent_indent=" " * (indent or 2), break_on_hyphens=False
    )


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _harmless(text: str) -> str:
    return text if text.isprintable() else "".join(one if one.isprintable() else "\ufffd" for one in text)
