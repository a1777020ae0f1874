// Two moments side by side: the second picture, and in words and numbers what became different between them. The
// earlier is always compared with the later, whichever is shown first.

import { getJson } from "./address.js";
import { DiffPanel } from "./diff_panel.js";
import { el, setAttribute, setText } from "./elements.js";
import { openBeside } from "./feed.js";
import { MapPane } from "./map_pane.js";
import { epochOf } from "./moment.js";
import { whenWords } from "./moment_words.js";

const PAUSE_MS = 120;
const MOST = 100_000; // block ids of each kind of change

export class Comparison {
  /** `view`, `order`, `on`: as a MapPane takes them: both pictures are laid out in the order of the first. */
  constructor(source, feed, selection, view, order, on) {
    Object.assign(this, { source, feed, view, order, on });
    this.moment = feed.moment;
    this.other = null; // {feed, release, pane, exits} while two moments are compared
    this.told = null; // the answer of /api/diff for `pair`
    this.pair = "";
    this.name = el("div", { class: "side-name", hidden: true });
    this.otherName = el("div", { class: "side-name" });
    this.side = el("div", { class: "side", hidden: true }, this.otherName);
    this.panel_ = new DiffPanel(selection, this.moment);
    this.panel = this.panel_.node;
    this.exits = [
      this.moment.subscribe(() => this.#turn()),
      feed.subscribe("summary", () => this.#compareSoon()),
    ];
    this.#turn();
  }

  /** The second picture; null while there is none. */
  get pane() {
    return this.other?.pane ?? null;
  }

  get isOn() {
    return this.other !== null;
  }

  close() {
    this.#end();
    for (const exit of this.exits) exit();
  }

  /** Ids of the blocks that differ, or null: also while both moments are the same one, where none can. */
  differing() {
    return this.isOn && this.told && this.told.from_seq !== this.told.to_seq ? this.ids : null;
  }

  draw(marks, palette, focus) {
    for (const node of [this.name, this.side, this.panel]) setAttribute(node, "hidden", !this.isOn);
    if (!this.isOn) return;
    setText(this.name, nameOf("A", this.feed));
    setText(this.otherName, nameOf("B", this.other.feed));
    this.other.pane.draw(marks, palette, focus);
    this.panel_.draw(this.told, this.problem, this.#ends());
  }

  #turn() {
    const wanted = this.feed.isPast && this.moment.beside !== null;
    if (wanted && !this.isOn) this.#begin();
    else if (!wanted && this.isOn) this.#end();
    this.#compareSoon();
  }

  #begin() {
    const { feed, release } = openBeside(this.source);
    const pane = new MapPane(feed, this.view, this.order, this.on);
    this.side.append(pane.node);
    const exits = ["summary", "status"].map((kind) => feed.subscribe(kind, () => this.#otherTold()));
    this.other = { feed, pane, exits: [...exits, () => pane.close(), release] };
  }

  #end() {
    clearTimeout(this.timer);
    this.asking?.abort();
    for (const exit of this.other?.exits ?? []) exit();
    this.other?.pane.node.remove();
    Object.assign(this, { other: null, told: null, pair: "", problem: "" });
    this.moment.besideTime = null;
    this.on.changed();
  }

  #otherTold() {
    const time = this.other?.feed.summary?.state?.time;
    this.moment.besideTime = time ? Date.parse(time) : null;
    this.#compareSoon();
  }

  #compareSoon() {
    this.on.changed();
    if (!this.isOn) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#compare(), PAUSE_MS);
  }

  // The two moments shown, the earlier first; null while one of them has no picture.
  #ends() {
    const ends = [this.feed, this.other.feed].map(({ past, summary }) => ({
      at: past.shown,
      time: summary?.state?.time,
    }));
    if (ends.some((end) => !end.at || !end.time)) return null;
    return isLater(ends[0].at, ends[1].at) ? ends.reverse() : ends;
  }

  async #compare() {
    const ends = this.#ends();
    const pair = ends ? ends.map((end) => end.at).join(" ") : "";
    if (pair === this.pair || !ends) return;
    this.pair = pair;
    this.asking?.abort();
    const asking = (this.asking = new AbortController());
    try {
      const query = { source: this.source, from: ends[0].at, to: ends[1].at, limit: MOST };
      this.told = await getJson("diff", query, asking.signal);
      this.ids = [...new Set(Object.values(this.told.blocks).flat())];
      this.problem = "";
    } catch (error) {
      if (error.name === "AbortError") return;
      this.told = null;
      this.problem = error.message;
    }
    this.on.changed();
  }
}

function isLater(one, other) {
  const [a, b] = [one, other].map((at) => [Number(epochOf(at)), Number(at.slice(at.indexOf(".") + 1))]);
  return a[0] > b[0] || (a[0] === b[0] && a[1] > b[1]);
}

function nameOf(letter, feed) {
  const time = feed.summary?.state?.time;
  if (!time) return `${letter}  ·  ${feed.status.reason || "on its way"}`;
  return `${letter}  ·  ${whenWords(time)}  ·  ${feed.past.shown}`;
}
