"""docs/signals.md out of the table of signals: `python -m kvxray_backend.metrics.signals_page docs/signals.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from kvxray_backend.metrics.signal import Signal, Term, Told
from kvxray_backend.metrics.signals import TOPICS

_COLON: Final = frozenset({"vllm", "sglang", "lmcache"})
FAMILY_WORDS: Final = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "trtllm": "TensorRT-LLM",
    "dynamo": "Dynamo",
    "lmcache": "LMCache",
    "router": "llm-d router",
}
_COMBINE: Final = {"sum": "sum over engines", "max": "the largest"}
_HEAD: Final = """# Signals: what metrics tell, and by which names

Made from the table in `backend/kvxray_backend/metrics`; a test holds this page to it.

A signal is one thing that engines tell, under one name here, whatever each of them calls it. For each: its unit and
kind, how what several engines (or data-parallel ranks) tell becomes one number, how sure it is, and the metrics it is
read from.

- **Names.** Of names parted by "before", the first that an engine tells counts: a release between two names tells
  both. Counters are found with and without `_total`, and every name with the prefixes that others give it:
  `ray_vllm:`, `ray_vllm_`, `vllm.` and `vllm_` for `vllm:`, and so for the rest. "or" parts other ways to tell the
  same thing, the best first.
- **Ranks.** Tensor-parallel, pipeline and expert ranks of one engine repeat each other: the lowest speaks for all.
  Data-parallel ranks and engines are several. A ratio of several is the largest, never an average; what sums is
  summed.
- **Resets.** A counter that fell was reset and counts from 0 again; one that is born while its engine is watched
  counts from 0, so a first event is not lost. What a counter had when it was first seen is no growth.
- **No data.** A ratio whose denominator did not grow is no data, and so is what an engine does not tell; neither is
  0.
- **Certainty.** *exact*: the engine counts every case. *derived*: it samples, or tells only how it stands when it is
  asked, or (histograms) what fell into which bucket. A figure over a window that is read at scrapes is derived
  whatever the signal.
- Dynamo and LMCache count only where no engine on the same page tells the signal itself.
"""


def signals_page() -> str:
    """The whole page."""
    return "\n".join([_HEAD, *(line for topic, signals in TOPICS.items() for line in _topic(topic, signals))])


def _topic(topic: str, signals: Sequence[Signal]) -> Iterator[str]:
    yield f"## {topic}\n"
    yield "| signal | unit | kind | of several | certainty | means | read from |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for signal in signals:
        sources = "<br>".join(f"{FAMILY_WORDS[family]}: {_ways(ways)}" for family, ways in signal.told.items())
        cells = (
            f"`{signal.name}`",
            signal.unit.replace("_", " "),
            signal.kind,
            _COMBINE[signal.combine],
            signal.certainty,
            signal.meaning,
            sources,
        )
        yield f"| {' | '.join(cells)} |"
    yield ""


def _ways(ways: Sequence[Told]) -> str:
    return ", or ".join(way_words(way) for way in ways)


def way_words(way: Told) -> str:
    """One way that a family tells a signal: its metrics, what is chosen of them, and what becomes of their unit."""
    text = " plus ".join(_term(term) for term in way.terms)
    if way.split:
        text += f", by `{way.split}`"
    if way.times:
        text += f", times `{way.times}`"
    if way.factor != 1:
        text += f", times {way.factor:,.0f}"
    return text


def _term(term: Term) -> str:
    text = f"`{_shown(term.names[0])}`"
    if len(term.names) > 1:
        text += " (before: " + ", ".join(f"`{_shown(name)}`" for name in term.names[1:]) + ")"
    for label, values in term.only.items():
        text += f" where `{label}` is {', '.join(values)}"
    return text


def _shown(name: str) -> str:
    prefix, _, rest = name.partition(":")
    if prefix == "lmcache_mp":
        return f"{prefix}.{rest}"
    return f"{prefix}:{rest}" if prefix in _COLON else f"{prefix}_{rest}"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(signals_page())
