// A button that lights up, on the map, the chain of hashes through a block: the blocks of the prompt up to it, and all that
// go on from it. Pressed again, or with another block selected, it puts them out.

import { getJson } from "./address.js";
import { el, setAttribute, setText } from "./elements.js";
import { count, plural } from "./format.js";

export class ChainButton {
  constructor(feed, selection) {
    Object.assign(this, { feed, selection });
    this.block = null; // whose button this is, from the first draw on
    this.lit = null; // what this button lit up
    this.note = el("span", { class: "faint" });
    this.button = el(
      "button",
      { class: "link", type: "button", onclick: () => this.#press() },
      "Light up its chain",
    );
    this.node = el("div", { class: "chain", hidden: true }, this.button, this.note);
  }

  /** `hash`: of the block, null when it has none or is not known. */
  draw(block, hash) {
    setAttribute(this.node, "hidden", !hash);
    if (block !== this.block) this.#letGo();
    this.block = block;
    const isLit = this.lit !== null && this.selection.lit === this.lit;
    setText(this.button, isLit ? "Put its chain out" : "Light up its chain");
    if (!isLit) setText(this.note, this.problem ?? "");
  }

  async #press() {
    if (this.lit && this.selection.lit === this.lit) return this.#letGo();
    const { block } = this;
    const chain = await getJson(`blocks/${block}/chain`, this.feed.query()).catch((error) => error);
    if (block !== this.block) return;
    this.problem = chain instanceof Error ? ` · ${chain.message}` : null;
    if (this.problem) return setText(this.note, this.problem);
    const { before, after } = chain;
    setText(this.note, ` · ${count(before.length)} up to it, ${plural(after.length, "block")} beyond`);
    this.lit = { label: `chain of block ${count(block)}`, blocks: [...before, ...after] };
    this.selection.light(this.lit);
  }

  // Only what this button lit up is put out: what a request or a finding did stays.
  #letGo() {
    this.problem = null;
    if (this.lit && this.selection.lit === this.lit) this.selection.light(null);
    this.lit = null;
  }
}
