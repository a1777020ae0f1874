"""The guide: what every state, figure and mark on the page means, in the words the tooltips use."""

from __future__ import annotations

import streamlit as st

from kvxray_app.components.alerts import STAND_MEANINGS
from kvxray_app.markup import colour_variables, definitions
from kvxray_app.words import CERTAINTIES, FIGURES, HEALTH, LEAKED, STATES

_ORDER = ("shared", "active", "cached", "free", "empty", "unknown")

_TERMS = {
    "Block": "The unit in which the engine hands out cache memory: room for the keys and values of a few tokens.",
    "Slot": "The room of one token in a block.",
    "Hash": "Names what a full block holds and all that came before it. Blocks of one hash hold the same.",
    "Prefix": "The beginning of a prompt. Where a block with its hash is still there, nothing is computed: a hit.",
    "Cache dtype": "How keys and values are stored. Fewer bits are less exact and make more blocks of the same bytes: "
    "how many more than fp16 stands on the tile of the cache in use.",
    "Step": "One round of the engine: it chooses requests, computes their next tokens, and tells what it did.",
    "Preemption": "A running request loses its blocks to another because none is free; what was computed is lost.",
    "Eviction": "A cached block is given to somebody new: what it held can no longer be reused.",
    "Event": "One thing that happened to a block or a request, numbered in each epoch and written EPOCH.EVENT.",
}

_MAP = {
    "Square": "One block.",
    "Filled part": "Slots of the block that hold a token. The soft part above is empty slots: internal fragmentation.",
    "Number": "How many requests hold a shared block.",
    "Hatching": "Leaked: only requests that have ended hold it.",
    "Red corner": "Leaked by one holder, but living requests hold it as well: it would be in use anyway.",
    "Flash": "The block just changed. Tokens written make it flash faintly, a change of hands brightly.",
    "Pale colours": "An old picture: the engine or the backend is not heard. Beside the title stands of when it is.",
    "Legend": "How many blocks are of each kind. Press one or several to make them stand out.",
    "Colours": "Of the state of each block, how many hold it, how long ago it was allocated, who holds it, for which "
    "tenant, or in which memory it lies: chosen above the map. Ages, holders and tenants are asked for once a second; "
    "several holders of one block are told as such. Tenants are digests: equal wherever the tenant is.",
    "By id, by prefix": "How the blocks lie; O changes it. By prefix, blocks of one chain of hashes lie side by side, "
    "and prompts that begin alike share their beginning: the largest tree comes first, blocks without a hash come "
    "last. The order follows the cache once a second, and rests while you point at the map.",
    "Wheel, pinch, + and -": "Enlarge the map; 0 shows all of it again. The wheel is the map's once you clicked into "
    "it, or with Ctrl. Drag the enlarged map along; the small one in its corner tells where you are.",
    "Drag, or Shift and drag": "Mark a range of blocks, as text is marked, and see what is in it and who holds it. "
    "Shift and arrows do the same.",
    "Click, arrows, Enter": "Inspect a block: who holds it, its hash, its history, and on the map the chain of "
    "hashes through it. The page's address names it, and what part of the map you look at.",
    "Inspector": "A block, a request or a prefix (all up to a block with a certain hash). Holders lead to requests, "
    "hashes to prefixes, squares to blocks, times to that moment; the browser's back button leads back. Copy JSON "
    "gives what the API says of it, for a ticket.",
    "Escape": "Close the inspector and the text, and put out what is lit up; anywhere on the page.",
}

_TABLE = {
    "Status": "Waiting: not scheduled yet. Running. Preempted: waits to go on. Finished, aborted, failed: over.",
    "Prompt, output": "Tokens asked with, and tokens generated so far.",
    "From prefix cache": "Prompt tokens that were found in the cache and not computed.",
    "Blocks": "What it holds now, and how much of that others hold too.",
    "First token": "Time from its arrival to its first token.",
    "Age": "Time since its arrival; of an ended request, up to its end, if this page saw it end.",
    "Blocks, tokens, bytes": "The switch at the top right: the same amounts as blocks, as room for tokens, as memory.",
    "A dash": "Not known, or there was nothing to measure yet. It never stands for zero.",
}

_TIME = {
    "The bar at the foot": "All that is stored: blocks by state, evictions below them, preemptions as red ticks. Pale: "
    "nothing happened. Hatched: events are missing. Triangles are findings, ribbons bookmarks; a line begins an epoch.",
    "A press on it": "The whole page shows that moment. A frame around it and the word Past say so, until you go back.",
    "Drag, wheel": "Move through time; show less or more of it. Arrows move along the bar when it has the focus.",
    "P": "Play or pause, at 1, 5, 20 or 100 times the speed at which it happened.",
    "Comma, full stop": "One event back, one forward. With Shift, < and >: one step of the engine.",
    "[ and ]": "To the mark before or the next one: a finding, a gap, the beginning of an epoch, a bookmark.",
    "V": "Compare: keep this moment beside the one you go to next. What differs is outlined in both.",
    "B": "Bookmarks: mark this moment with a note, or go to one that is marked. Everybody here sees them.",
    "+, -, 0": "Zoom the bar in, out, and back to the whole history.",
    "L": "Live: back to the present.",
    "The address": "Names the moment, the block, the prefix and the request: whoever opens it sees the same.",
}

_LEAK = {
    "1. Who": "The finding at the top names the request and how it ended: finished, aborted or failed.",
    "2. What": "Show on map lights its blocks up. Hatched ones are lost to everybody until the engine restarts.",
    "3. Since when": "Click one of them. Its history lacks the release that should follow the request's end.",
    "4. Where from": "Look in the engine for the code that ends a request in that way and does not free its blocks.",
    "5. Until then": "Watch the Leaked tile. When it grows, restart the engine before the cache is full.",
}

_PAGES = {
    "Live": "Every block of one engine's cache, with its requests and events. A press on the bar at the foot shows "
    "them as they were at any moment.",
    "Overview": "What fires now, and one sentence on whether each cache is healthy and, if not, whether it is KV, "
    "compute, queue or transfer, with the figures that say so. Where it cannot know, it says that.",
    "Fleet": "All engines of all makes, one line each and the worst first. A press on a head sorts by it, the box "
    "filters, a line leads to the live page of its engine.",
    "Attach an engine": "From the fleet: what to switch on at a vLLM, SGLang, TensorRT-LLM or Dynamo, a test of the "
    "connection, and what can be known of it.",
    "Alerts": "What fires now, the gravest first, with who is to blame and who was told; what is over; and all rules, "
    "with what to do, how each stands for each engine, and a trial on history.",
    "Timelines": "How every figure went, with findings, restarts and gaps marked. Drag over a chart to choose a "
    "stretch, press to go to a moment.",
    "History": "What was found, the lives of the engine, and every stored event.",
    "Signals": "Everything that the metrics of an engine of others tell, over an hour, a day or fifteen: rates, "
    "quantiles, heat maps. A hole is time in which nothing was read; what an engine does not tell is listed at the "
    "foot.",
}

_OTHERS = {
    "What they tell": "Engines of others tell which prefixes they have cached, block by block, each by its hash. Block "
    "ids, reference counts, holders and requests they do not tell: those panels say not observable.",
    "Cached prefixes": "Every block that such an engine has cached is one cell: from left to right the blocks of a "
    "prompt, from top to bottom the prompts that branch off. What many share is as high as all of them.",
    "Hatched": "Unreachable: a block before it is gone, so that no prompt can hit it any more.",
    "Maybe": "Told twice, which may have been a reuse of the same block and not one more.",
    "In use and cached": "In use are blocks that requests hold, as metrics tell; cached ones that nobody holds do not "
    "count. So an idle engine is 0% in use while nearly all its blocks are cached.",
    "Known since": "Nobody tells what was cached before kvxray came, unless the engine's replay reaches back so far.",
    "Silence": "An engine without work tells nothing, not even that its cache was cleared, before its next request.",
}

_ALERTS = {
    "Alert": "A rule that fired for an engine, or for all engines of one model and role. It keeps the moment, what was "
    "found, and the numbers that were compared.",
    "Fires": STAND_MEANINGS["firing"],
    "About to fire": STAND_MEANINGS["pending"],
    "Inactive": STAND_MEANINGS["inactive"],
    "Unknown": f"{STAND_MEANINGS['unknown']} It may hold or not: an alert that fires goes on, and says since when "
    "nobody can tell.",
    "Not observable": f"{STAND_MEANINGS['not_observable']} The page says what would.",
    "Over": "What it asked for is known to hold no more; or its rule was switched off, or its engine taken away.",
    "Quiet": "It fires, and nobody is told: silenced in Alertmanager, or muted here, until a time.",
    "Told": "A target, where alerts are sent, took it. What it did not take is tried again.",
    "Marked": "An alert's link opens its moment with the blocks, requests or hashes of its findings marked.",
}

_STYLE = """
<style>
.kx-words { max-width: 46rem; margin-bottom: 1.6rem; }
.kx-words h2 { font-size: 1.05rem; font-weight: 600; margin: 0 0 0.5rem; padding: 0; }
.kx-words dl { display: grid; grid-template-columns: 11.5rem 1fr; gap: 0.45rem 1.2rem; margin: 0; padding: 0; }
.kx-words dt { margin: 0; padding: 0; font-weight: 600; color: var(--kx-text); }
.kx-words dd { margin: 0; color: var(--kx-text-muted); }
.kx-swatch { display: inline-block; width: 0.85rem; height: 0.85rem; border-radius: 0.22rem; margin-right: 0.6rem;
  vertical-align: -0.1rem; }
.kx-swatch.unknown { background: var(--kx-unknown); } .kx-swatch.free { background: var(--kx-free); }
.kx-swatch.empty { background: var(--kx-empty); box-shadow: inset 0 0 0 1px var(--kx-border-strong); }
.kx-swatch.cached { background: var(--kx-cached); } .kx-swatch.active { background: var(--kx-active); }
.kx-swatch.shared { background: var(--kx-shared); }
.kx-swatch.leaked { box-shadow: inset 0 0 0 1.5px var(--kx-leaked);
  background: repeating-linear-gradient(45deg, var(--kx-leaked) 0 2px, transparent 2px 4px); }
.kx-guide { columns: 4 30rem; column-gap: 3rem; }
.kx-guide section { break-inside: avoid; }
@media (min-width: 2800px) and (min-height: 1500px) { .kx-guide { zoom: 1.35; } }
</style>
"""


def guide() -> None:
    """Lay out the guide."""
    st.title("Guide", anchor=False)
    st.caption("What the states, figures and marks on the page mean.")
    states = {name: STATES[name] for name in _ORDER} | {"leaked": LEAKED}
    sections = (
        definitions("The pages", _PAGES),
        definitions("States of a block", states, swatches=True),
        definitions("Words", _TERMS),
        definitions("Reading the map", _MAP),
        definitions("Engines of others", _OTHERS),
        definitions("Going back in time", _TIME),
        definitions("Requests and amounts", _TABLE),
        definitions("Alerts", _ALERTS),
        definitions("When a leak shows", _LEAK),
        definitions("Figures", {figure.label: figure.meaning for figure in FIGURES}),
        definitions("How sure a figure is", _certainties()),
        definitions("Health of the stream", _split(HEALTH)),
    )
    st.html(f'{_STYLE}<div class="kx-guide" style="{colour_variables()}">{"".join(sections)}</div>')


def _certainties() -> dict[str, str]:
    """Certainties with the dot that stands beside a figure's label."""
    marks = {"Exact": "full dot", "Derived": "half dot", "Not observable": "a dash for a value"}
    return {f"{word}: {marks[word]}": meaning for word, meaning in _split(CERTAINTIES).items()}


def _split(sentences: dict[str, str]) -> dict[str, str]:
    """`Word: meaning.` sentences as words and meanings."""
    parts = (sentence.split(": ", 1) for sentence in sentences.values())
    return {word: meaning[0].upper() + meaning[1:] for word, meaning in parts}
