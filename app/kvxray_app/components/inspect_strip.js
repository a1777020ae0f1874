// Blocks in a row, one square each in the colour of its state: press one to inspect it. A long row shows its first and
// says how many more there are.

import { stateOf, swatchOf } from "./block_facts.js";
import { el, reconcile, setAttribute, setText } from "./elements.js";
import { count } from "./format.js";

const SHOWN = 120;
const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

export class BlockStrip {
  /** `frame`: the inspector. `label`: what these blocks are. */
  constructor(frame, label) {
    this.frame = frame;
    this.squares = el("div", { class: "squares", role: "group", "aria-label": label });
    this.more = el("span", { class: "faint" });
    this.node = el("div", { class: "strip" }, this.squares, this.more);
    this.squares.addEventListener("keydown", (event) => this.#key(event));
  }

  draw(blocks) {
    const shown = blocks.slice(0, SHOWN);
    reconcile(
      this.squares,
      shown,
      String,
      (block) => this.#make(block),
      (node, block) => this.#patch(node, block),
    );
    setText(this.more, blocks.length > SHOWN ? `and ${count(blocks.length - SHOWN)} more` : "");
    // One stop of the Tab key for all of them; arrows go on from there.
    const current = [...this.squares.children].find((square) => square.tabIndex === 0);
    if (!current && this.squares.firstElementChild) this.squares.firstElementChild.tabIndex = 0;
  }

  #make(block) {
    const inspect = () => this.frame.selection.selectBlock(block);
    const swatch = el("i", { class: "swatch" });
    const square = el("button", { class: "square", tabindex: "-1", onclick: inspect }, swatch);
    this.frame.tip.describe(square, () => [`Block ${count(block)}`, this.#stateOf(block)]);
    return square;
  }

  #patch(square, block) {
    const { table } = this.frame.feed;
    const looks = this.#isHere(block) ? swatchOf(table, block) : { "data-state": "unknown" };
    for (const name of ["data-state", "data-leaks"]) setAttribute(square.firstChild, name, looks[name]);
    setAttribute(square, "aria-label", `Block ${block}, ${this.#stateOf(block)}`);
  }

  #isHere(block) {
    return (this.frame.feed.table?.numBlocks ?? 0) > block;
  }

  #stateOf(block) {
    return this.#isHere(block) ? stateOf(this.frame.feed.table, block) : "unknown";
  }

  #key(event) {
    const [square] = event.composedPath();
    const next = STEPS[event.key] > 0 ? square.nextElementSibling : square.previousElementSibling;
    if (!STEPS[event.key]) return;
    event.preventDefault();
    event.stopPropagation(); // the page has arrows of its own
    if (!next) return;
    square.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }
}
