// The blocks that are chosen: by id, all from one to another, or those that lay between two blocks in the order of
// prefixes when they were chosen. They stay the same blocks, however the map is laid out from then on. Never changed.

import { count } from "./format.js";

const KINDS = ["id", "chain"];

export class ChosenBlocks {
  /** `ends`: the first and the last; `blocks`: all of them, in order, null where `kind` is "id" or not known yet. */
  constructor(kind, ends, blocks = null) {
    Object.assign(this, { kind, ends, blocks });
  }

  /** As `key` writes it; null for anything else. */
  static parse(text) {
    const found = /^(chain-)?(\d{1,9})-(\d{1,9})$/.exec(text ?? "");
    if (!found) return null;
    const ends = [Number(found[2]), Number(found[3])];
    return found[1] ? new ChosenBlocks(KINDS[1], ends) : new ChosenBlocks(KINDS[0], ends.sort((a, b) => a - b));
  }

  /** All that lie from one block to another in an order, as MapOrder gives it; null where one of them is not in it. */
  static between({ blocks, places }, one, other) {
    const [first, last] = [places[one], places[other]].sort((a, b) => a - b);
    if (!(first >= 0 && last >= 0)) return null;
    const chosen = blocks.slice(first, last + 1);
    return new ChosenBlocks("chain", [chosen[0], chosen.at(-1)], chosen);
  }

  /** For links. */
  get key() {
    return `${this.kind === "id" ? "" : "chain-"}${this.ends.join("-")}`;
  }

  get words() {
    const [first, last] = this.ends.map((block) => count(block));
    if (this.kind === "id") return first === last ? `Block ${first}` : `Blocks ${first} to ${last}`;
    return first === last ? `Block ${first}` : `By prefix, block ${first} to block ${last}`;
  }

  /** Whether it waits for an order to tell which blocks these are. */
  get isOpen() {
    return this.kind !== "id" && this.blocks === null;
  }

  isSame(other) {
    return other !== null && other.key === this.key && other.blocks === this.blocks;
  }

  /** Call `tell(block)` for each, the null block included where it is among them. */
  each(numBlocks, tell) {
    if (this.kind === "id")
      for (let block = this.ends[0]; block <= this.ends[1] && block < numBlocks; block++) tell(block);
    else for (const block of this.blocks ?? []) if (block < numBlocks) tell(block);
  }

  /** Which of `numBlocks` blocks are chosen: one byte each. */
  mask(numBlocks) {
    if (this.kind === "id") return new Uint8Array(numBlocks).fill(1, this.ends[0], this.ends[1] + 1);
    const has = new Uint8Array(numBlocks);
    this.each(numBlocks, (block) => (has[block] = 1));
    return has;
  }

  /** The first and the last of its cells in a layout; null where they do not lie in one piece. */
  span(layout) {
    const { numBlocks } = layout;
    if (this.kind === "id" && !layout.order) {
      const end = layout.cellOf(Math.min(this.ends[1], numBlocks - 1));
      return [Math.min(layout.cellOf(this.ends[0]), end), end];
    }
    let [first, last, number] = [Infinity, -1, 0];
    this.each(numBlocks, (block) => {
      if (block === layout.nullBlock) return;
      const cell = layout.cellOf(block);
      first = Math.min(first, cell);
      last = Math.max(last, cell);
      number += 1;
    });
    return number && last - first + 1 === number ? [first, last] : null;
  }
}
