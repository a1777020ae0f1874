// The map of cached prefixes: one cell a hash that is in the cache, chains side by side. Press one to inspect it.

import { markFor } from "./alert_mark.js";
import { el, setAttribute, setText } from "./elements.js";
import { count, plural } from "./format.js";
import { Switch, ZoomControls, zoomOfKey } from "./map_controls.js";
import { UNREACHABLE, keyOf } from "./residency_frame.js";
import { ResidencyLegend } from "./residency_legend.js";
import { MODES, classesOf, classify, pixelsOf } from "./residency_look.js";
import { ResidencyMarks } from "./residency_marks.js";
import { ResidencyStage } from "./residency_stage.js";
import { LAYOUTS } from "./residency_view.js";

const MODE_WORDS = {
  age: ["Age", "Colours tell since when each block is in the cache."],
  idle: ["Idle", "Colours tell how long ago an event last named it. Not every engine tells of a hit."],
  reuses: ["Reuses", "Colours tell how often the engine told that it was used again. Not every engine does."],
  medium: ["Medium", "Colours tell in which memory it lies."],
  group: ["Group", "Colours tell of which group of layers it is."],
  certainty: ["Certainty", "Colours tell what is there for certain, and what may be gone already."],
};
const LAYOUT_WORDS = {
  tree: [
    "Prefix tree",
    "Left to right: a prompt's blocks from its first on. Top to bottom: the prompts that branch off.",
    "A block that many prompts share is as high as all of them together.",
  ],
  rows: ["Rows", "Chain after chain, every block of one size."],
};
const LAYOUT_KEY = "o";
const MANY = "More blocks than pixels: enlarge the map to see each of them.";
const HELP = "Arrows move along chains and branches, Enter inspects, + and − enlarge, O changes how it lies.";
const RESTS = "Rests while you point at it; more has happened since.";
const NONE_STANDS_OUT = new Set();
const GLOWING_MOST = 200_000; // cells: more take too long to compare

export class ResidencyMap {
  /** `screen`: {feed, view, tip, palette, requestDraw()}. */
  constructor(screen) {
    const { feed, view, tip } = screen;
    Object.assign(this, { screen, feed, view });
    const stage = { changed: () => screen.requestDraw(), select: (at) => this.#select(at), key: (event) => this.#key(event) };
    this.stage = new ResidencyStage(feed, view, stage);
    this.modes = new Switch("Colours tell", MODES, MODE_WORDS, tip, {
      get: () => view.mode,
      set: (mode) => view.setMode(mode),
    });
    this.layouts = new Switch("Blocks lie", LAYOUTS, LAYOUT_WORDS, tip, {
      get: () => view.layout,
      set: (layout) => view.setLayout(layout),
      key: LAYOUT_KEY,
    });
    this.legend = new ResidencyLegend(tip, view);
    this.zoom = new ZoomControls((factor) => this.stage.zoom(factor));
    this.told = el("span", { class: "muted" });
    this.help = el("span", { id: "kx-residency-help" }, HELP);
    this.changes = el("span", { class: "changes" });
    this.nothing = el("div", { class: "note" }, el("b"), el("span"));
    this.node = el(
      "section",
      { class: "panel map", "aria-label": "Map of cached prefixes" },
      el("div", { class: "panel-head" }, el("h2", {}, "Cached prefixes"), this.told, this.layouts.node, this.modes.node),
      this.legend.node,
      this.nothing,
      this.stage.writing.axis,
      this.stage.node,
      el("div", { class: "foot" }, this.help, this.changes, this.zoom.node),
    );
    this.frame = null;
    this.look = null;
    this.marked = new ResidencyMarks(feed, markFor(feed.source), () => screen.requestDraw());
  }

  close() {
    this.stage.close();
    this.marked.close();
  }

  draw() {
    const { palette } = this.screen;
    if (this.feed.frame !== this.frame && !this.#rests()) this.#take(this.feed.frame);
    this.#drawWords();
    this.#drawNothing();
    this.modes.draw();
    this.layouts.draw();
    const { frame } = this;
    const look = frame ? this.#lookNow(palette) : null;
    this.legend.draw(look?.named ?? [], look?.counts ?? null, palette, this.unreachable ?? 0);
    const sizes = this.feed.summary?.descriptor?.block_sizes ?? [];
    const blockSize = sizes.length === 1 ? sizes[0] : null;
    if (this.stage.draw(look, palette, this.#selected(), blockSize, this.marked.cells(frame))) this.screen.requestDraw();
    const { part } = this.stage;
    setText(this.help, part && Math.min(part.w, part.h) < 1 ? MANY : HELP);
    this.zoom.draw(part);
  }

  // While somebody points at it, what is pointed at stays where it is; the next moment of the same stream can wait.
  #rests() {
    const next = this.feed.frame;
    return this.stage.rests && !this.feed.isPast && next !== null && next.epoch === this.frame?.epoch;
  }

  #take(frame) {
    const before = this.frame;
    this.frame = frame;
    this.look = null;
    this.unreachable = frame ? frame.flags.reduce((sum, flags) => sum + (flags & UNREACHABLE), 0) : 0;
    const isSame = before && frame && before.epoch === frame.epoch;
    const compared = isSame && Math.max(before.count, frame.count) <= GLOWING_MOST ? compare(before, frame) : null;
    this.stage.take(frame, (at) => (at === null || !compared ? null : (compared.now.get(keyOf(before, at)) ?? null)));
    if (compared) this.stage.overlay.glow(compared.changed);
    this.difference = compared;
  }

  #lookNow(palette) {
    const { mode, only } = this.view;
    const descriptor = this.feed.summary?.descriptor;
    const { ordinals } = this.screen.parts.tenants;
    const key = [mode, only && [...only].join(), palette["kx-panel"], JSON.stringify(descriptor)].join(" ");
    if (this.look?.key === key && this.look.ordinals === ordinals) return this.look;
    const named = classesOf(mode, descriptor);
    const classes = classify(mode, this.frame, named.length);
    const counts = new Uint32Array(named.length);
    for (const at of classes) counts[at]++;
    let pixels = pixelsOf(named, palette, only);
    if (ordinals) {
      this.numOfTenant = setBack(this.frame, classes, ordinals, named.length);
      pixels = Uint32Array.of(...pixels, ...pixelsOf(named, palette, NONE_STANDS_OUT));
    } else this.numOfTenant = 0;
    this.look = { key, ordinals, named, classes, counts, pixels };
    return this.look;
  }

  #drawWords() {
    const { frame } = this;
    setText(this.told, frame ? toldWords(frame) : "");
    const { came, went } = this.difference ?? { came: 0, went: 0 };
    const words = [came && `${count(came)} came`, went && `${count(went)} went`].filter(Boolean).join(", ");
    const isOld = frame !== this.feed.frame && frame !== null;
    setText(this.changes, isOld ? RESTS : words ? `${words} with the last change` : "");
    setAttribute(this.changes, "data-rests", isOld);
    const label = frame ? `Map of cached prefixes: ${toldWords(frame)}` : "Map of cached prefixes, no data yet";
    setAttribute(this.stage.top, "aria-label", label);
  }

  #drawNothing() {
    const { frame, feed } = this;
    const isEmpty = frame !== null && frame.count === 0;
    setAttribute(this.nothing, "hidden", frame !== null && !isEmpty);
    setAttribute(this.stage.node, "hidden", !frame?.count);
    if (!frame?.count) setAttribute(this.stage.writing.axis, "hidden", true);
    const [title, words] = this.nothing.children;
    const [says, why] = nothingWords(feed, isEmpty);
    setText(title, says);
    setText(words, why);
  }

  #selected() {
    const { ordinal } = this.view;
    if (ordinal === null || !this.frame) return null;
    const at = this.frame.ordinal.indexOf(ordinal);
    return at < 0 ? null : at;
  }

  #select(at) {
    if (at === null) this.view.letGo();
    else this.view.select({ ordinal: this.frame.ordinal[at] });
  }

  // Whether a key was not for the map.
  #key({ key }) {
    const factor = zoomOfKey(key);
    if (factor !== null) this.stage.zoom(factor);
    else if (key === LAYOUT_KEY) this.view.setLayout(LAYOUTS[1 - LAYOUTS.indexOf(this.view.layout)]);
    else return true;
    return false;
  }
}

// Cells that are not among these become of the faded classes, which come after the others. Returns how many stay.
function setBack(frame, classes, ordinals, faded) {
  let kept = 0;
  for (let at = 0; at < frame.count; at++) {
    if (ordinals.has(frame.ordinal[at])) kept++;
    else classes[at] += faded;
  }
  return kept;
}

// Why there is no map: a title and a sentence.
function nothingWords({ summary, failed, frameProblem }, isEmpty) {
  if (isEmpty) return ["Nothing is cached, as far as is known", "Blocks appear here as the engine tells of them."];
  if (frameProblem) return ["There is no map", frameProblem];
  if (!summary && failed) return ["There is no map", failed];
  if (summary && !summary.seq) return ["Nothing was heard of this engine yet", "Its blocks appear with its first event."];
  return ["Reading what is cached", "A moment, please."];
}

function toldWords(frame) {
  const shown = frame.count < frame.total ? `${count(frame.count)} of ${count(frame.total)}` : count(frame.total);
  return `${shown} ${frame.total === 1 ? "block" : "blocks"} in ${plural(frame.trees, "tree")} of prefixes`;
}

// What became different between two frames: cells of the newer one that came or were used again, and how many went.
function compare(before, frame) {
  const reuses = new Map();
  for (let at = 0; at < before.count; at++) reuses.set(keyOf(before, at), before.reuses[at]);
  const now = new Map();
  const changed = [];
  let came = 0;
  for (let at = 0; at < frame.count; at++) {
    const key = keyOf(frame, at);
    now.set(key, at);
    const told = reuses.get(key);
    if (told === undefined) came++;
    if (told !== frame.reuses[at]) changed.push(at);
  }
  return { now, changed, came, went: before.count - (frame.count - came) };
}
