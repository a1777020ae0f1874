// What the table of blocks knows of one block, in words: the same for the hover card, the keyboard and the
// inspector.

import { el } from "./elements.js";
import { NO_DATA, count } from "./format.js";
import { FLAG_HASHED, FULL, STATES, UNKNOWN } from "./frames.js";

export const stateOf = (table, block) => STATES[table.state[block]] ?? "unknown";

/** References as text; counts beyond what a frame can carry say so. */
export function referencesOf(table, block) {
  const ref = table.ref[block];
  if (ref === UNKNOWN) return NO_DATA;
  return ref >= FULL ? `${FULL} or more` : count(ref);
}

/** Slots written, or null when that is not known. Frames carry them scaled to 0..254. */
export function slotsOf(table, block) {
  const fill = table.fill[block];
  return fill === UNKNOWN ? null : Math.round((fill * table.blockSize) / FULL);
}

/** Facts of a block: its name, its state, then a line each. */
export function factsOf(table, block) {
  const ref = table.ref[block];
  const slots = slotsOf(table, block);
  const held = ref === 0 ? "held by nobody" : `held by ${referencesOf(table, block)}`;
  return [
    `Block ${count(block)}`,
    stateOf(table, block),
    ref === UNKNOWN ? "references unknown" : held,
    slots === null ? "slots unknown" : `${slots} of ${table.blockSize} slots written`,
    table.flags[block] & FLAG_HASHED ? "in the prefix cache" : "",
    leakWords(table, block),
  ].filter(Boolean);
}

/** Attributes of a swatch that looks like the block's cell. */
export function swatchOf(table, block) {
  const only = table.isLeakedOnly(block);
  return {
    "data-state": only ? "leaked" : stateOf(table, block),
    "data-leaks": table.isLeaked(block) && !only,
  };
}

// Which holders leak is told by the block's details; of itself the table knows only whether all of them do.
function leakWords(table, block) {
  if (!table.isLeaked(block)) return "";
  if (!table.isLeakedOnly(block)) return "leaked: a holder has ended and still holds it";
  return table.ref[block] === 1 ? "leaked: its holder has ended" : "leaked: all its holders have ended";
}

/** The card that floats beside a block. `place`: its [left, top, width, height] in CSS pixels of the card's parent. */
export class BlockCard {
  constructor() {
    this.node = el("div", { class: "card", hidden: true });
  }

  /** `lines`: what else is known of the block. */
  show(table, block, place, lines = []) {
    const [title, state, ...facts] = factsOf(table, block);
    const swatch = el("i", { class: "swatch", ...swatchOf(table, block) });
    this.node.replaceChildren(
      el("div", { class: "card-head" }, swatch, el("b", {}, title), el("span", { class: "muted" }, state)),
      ...facts.map((fact) => el("div", {}, fact)),
      ...lines.map((line) => el("div", { class: "line" }, line)),
    );
    this.node.hidden = false;
    this.#place(...place);
  }

  hide() {
    this.node.hidden = true;
  }

  #place(left, top, width, height) {
    const { offsetWidth, offsetHeight } = this.node;
    const { clientWidth, clientHeight } = this.node.parentElement;
    const right = left + width + 10;
    const across = right + offsetWidth > clientWidth ? left - offsetWidth - 10 : right;
    const down = Math.min(Math.max(4, top + height / 2 - offsetHeight / 2), clientHeight - offsetHeight - 4);
    this.node.style.left = `${Math.max(4, across)}px`;
    this.node.style.top = `${down}px`;
  }
}
