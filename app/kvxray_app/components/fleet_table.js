// The table of the fleet. Its heads sort, its rows lead to the live page of their engine. The order follows what the
// engines do, and rests while somebody points at the table or has the keyboard in it.

import { el, reconcile, setAttribute, setText } from "./elements.js";
import { firstDirection, fits, sorted } from "./fleet_order.js";
import { FleetRow } from "./fleet_row.js";

export class FleetTable {
  /** `remove(engine)`: called when somebody wants an engine away. */
  constructor(words, glossary, tip, remove) {
    this.words = words;
    this.glossary = glossary;
    this.tip = tip;
    this.remove = remove;
    this.key = "status";
    this.direction = firstDirection("status");
    this.order = [];
    this.shown = null;
    this.heads = words.columns.map((column) => this.#head(column));
    this.body = el("tbody");
    const last = el("th", { scope: "col" }, el("span", { class: "sr-only" }, "Remove"));
    const table = el("table", {}, el("thead", {}, el("tr", {}, ...this.heads, last)), this.body);
    const about = { class: "scroll", tabindex: "0", role: "group", "aria-label": "Table of engines" };
    this.node = el("div", about, table);
    this.#markHeads();
  }

  /** Draw the engines that fit the filter; how many these are. */
  draw(engines, filter) {
    this.shown = [engines, filter];
    if (!this.#isPointedAt()) this.order = sorted(engines, this.key, this.direction).map(({ name }) => name);
    const listed = this.#inOrder(engines).filter((engine) => fits(engine, filter, this.words));
    reconcile(
      this.body,
      listed,
      (engine) => engine.name,
      (engine) => this.#row(engine),
      (node, engine) => node.kxRow.draw(engine),
    );
    setAttribute(this.node, "hidden", !listed.length);
    return listed.length;
  }

  #row(engine) {
    const row = new FleetRow(engine.name, this.words, this.glossary, this.tip, this.remove);
    row.node.kxRow = row;
    return row.node;
  }

  // Where the order rests, those who are new stand at the end.
  #inOrder(engines) {
    const places = new Map(this.order.map((name, at) => [name, at]));
    const place = ({ name }) => places.get(name) ?? places.size;
    return [...engines].sort((a, b) => place(a) - place(b));
  }

  #isPointedAt() {
    return this.body.matches(":hover, :focus-within");
  }

  #head(column) {
    const button = el("button", { onclick: () => this.#sortBy(column.key) }, column.label, el("i"));
    this.tip.describe(button, () => [column.label, column.meaning]);
    return el("th", { scope: "col", "data-column": column.key }, button);
  }

  #sortBy(key) {
    const turned = this.direction === "ascending" ? "descending" : "ascending";
    this.direction = key === this.key ? turned : firstDirection(key);
    this.key = key;
    this.#markHeads();
    if (this.shown) this.draw(...this.shown);
  }

  #markHeads() {
    for (const head of this.heads) {
      const isSorted = head.dataset.column === this.key;
      setAttribute(head, "aria-sort", isSorted ? this.direction : null);
      setText(head.querySelector("i"), isSorted ? { ascending: "↑", descending: "↓" }[this.direction] : "");
    }
  }
}
