"""What a rollup knows of one second or minute: the names of its columns, and how each is put together. Only words.

*Counters* and *maxima* add up over any span, *histograms* add up bucket by bucket (`histograms.py`), *gauges* were read
at the end of each chunk and have three columns: the last reading, the lowest and the highest.
"""

from __future__ import annotations

from typing import Final

COUNTERS: Final = (
    "events",
    "steps",
    "step_us",
    "allocations",
    "references",
    "dereferences",
    "frees",
    "blocks_cached",
    "evictions_for_allocation",
    "evictions_explicit",
    "evictions_for_capacity",
    "evictions_other",
    "copies",
    "moves",
    "cache_clears",
    "requests_arrived",
    "requests_scheduled",
    "requests_resumed",
    "requests_finished",
    "requests_aborted",
    "requests_failed",
    "preemptions",
    "tokens_queried",
    "tokens_hit",
    "tokens_generated",
    "tokens_computed",
    "ttft_count",
    "ttft_us",
    "itl_count",
    "itl_us",
)
"""Sums. `ttft_*`: first tokens and their microseconds since arrival; `itl_*`: later tokens and those since the one
before, as far as the fold knows it."""

MAXIMA: Final = ("step_us_max", "ttft_us_max", "itl_us_max")
"""The highest single value; 0 where there was none."""

HISTOGRAMS: Final = ("ttft_histogram", "itl_histogram")
"""How many tokens took how long: what medians are estimated from."""

GAUGES: Final = (
    "unknown",
    "empty",
    "free",
    "cached",
    "active",
    "shared",
    "used",
    "holds",
    "held_slots",
    "empty_slots",
    "leaked",
    "leaked_only",
    "running",
    "waiting",
)
"""Blocks by state (the null block outside), `used` = active + shared; `held_slots`: slots of referenced blocks,
`empty_slots`: those of them not written; the rest as the page names them. NULL: not known."""

GAUGE_COLUMNS: Final = tuple(f"{name}_{reading}" for name in GAUGES for reading in ("last", "min", "max"))
VALUE_COLUMNS: Final = (*COUNTERS, *MAXIMA, *HISTOGRAMS, "usable_blocks", *GAUGE_COLUMNS)
