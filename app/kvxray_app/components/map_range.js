// The card below the map that sums up the blocks that are chosen: how many, of which state, and who holds them.

import { el, reconcile, setAttribute, setText } from "./elements.js";
import { count, plural } from "./format.js";
import { STATES } from "./frames.js";
import { MapHolders } from "./map_holders.js";

const ORDER = ["shared", "active", "cached", "free", "empty", "unknown"];
const COUNT_EVERY_MS = 250; // a million blocks take some milliseconds

export class RangeCard {
  /** `clear()`: let the range go; `changed()`: draw again; `certainties`: what each means, in words. */
  constructor(clear, changed, certainties) {
    this.changed = changed;
    this.title = el("b");
    this.size = el("span", { class: "muted" });
    const close = el(
      "button",
      { class: "close", type: "button", "aria-label": "Let the range go", onclick: clear },
      "×",
    );
    this.counts = el("div", { class: "range-counts" });
    this.holders = new MapHolders(certainties);
    const head = el("div", { class: "range-head" }, this.title, this.size, close);
    this.node = el(
      "div",
      { class: "range", role: "group", "aria-label": "Chosen blocks", hidden: true },
      head,
      this.counts,
      this.holders.node,
    );
  }

  close() {
    clearTimeout(this.timer);
  }

  /** `range`: ChosenBlocks, or null; `details`: a MapDetails. */
  draw(table, range, details) {
    const isShown = Boolean(table && range && !range.isOpen);
    setAttribute(this.node, "hidden", !isShown);
    if (!isShown || !this.#isDue(table, range, details)) return;
    const counts = countStates(table, range);
    const total = counts.reduce((sum, part) => sum + part, 0);
    setText(this.title, range.words);
    setText(this.size, plural(total, "block"));
    reconcile(
      this.counts,
      ORDER.filter((name) => counts[STATES.indexOf(name)] > 0),
      (name) => name,
      (name) => el("span", {}, el("i", { class: "swatch", "data-state": name }), ` ${name} `, el("b")),
      (node, name) => setText(node.lastChild, count(counts[STATES.indexOf(name)])),
    );
    this.holders.draw(table, range, details);
  }

  // Whether anything changed since it was last summed up; if that was just now, in a moment.
  #isDue(table, range, details) {
    const of = [range, table, table.seq, details.version, details.lack("holder")];
    if (this.of && of.every((part, at) => part === this.of[at])) return false;
    const left = this.of?.[0] === range ? this.at + COUNT_EVERY_MS - performance.now() : 0;
    clearTimeout(this.timer);
    if (left > 0) {
      this.timer = setTimeout(this.changed, left);
      return false;
    }
    Object.assign(this, { of, at: performance.now() });
    return true;
  }
}

// The null block is of no state.
function countStates(table, range) {
  const counts = STATES.map(() => 0);
  range.each(table.numBlocks, (block) => {
    if (!table.isNull(block)) counts[table.state[block]] += 1;
  });
  return counts;
}
