// The tenants as a table: one row each, those of most first; a row marks its blocks on the map, or leads there.

import { el, reconcile, setAttribute, setStyle, setText } from "./elements.js";
import { NO_DATA, count } from "./format.js";
import { partOf } from "./tenants_bar.js";
import { shareOf } from "./tenants_rows.js";
import { amountWords, rowLines, rowName, windowWords } from "./tenants_words.js";

const FEW = 8;
const COLUMNS = {
  held: ["Held", "Blocks that somebody holds now, by who holds them."],
  cached: [
    "Cached",
    "Blocks with a hash, held or not: by who holds them, and those that nobody holds by who had them allocated.",
  ],
  took: ["Took", "Blocks that were evicted to make room for it, whosever they were."],
  lost: ["Lost", "Blocks of its that were evicted to make room, for itself or for others."],
};
const CACHED_HASHES = "Hashes that are cached, by who stored them or the beginning of their chain.";
const SHARES = ["held", "cached"];

export class TenantsTable {
  constructor(tip, certainties, on) {
    Object.assign(this, { tip, certainties, on, isWhole: false, view: null });
    this.heads = Object.fromEntries(Object.keys(COLUMNS).map((name) => [name, this.#head(name)]));
    this.rows = el("tbody");
    this.more = el("button", { class: "quiet-button", type: "button", onclick: () => this.#fold() });
    const heads = [el("th", { scope: "col" }, "Tenant"), ...Object.values(this.heads)];
    this.table = el("table", {}, el("thead", {}, el("tr", {}, ...heads)), this.rows);
    const scroll = el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Table of tenants" }, this.table);
    this.node = el("div", { class: "tenants-table" }, scroll, this.more);
  }

  /** `whose`: the key of the row whose blocks are marked, or null. */
  draw(view, rows, whose) {
    this.last = [view, rows, whose];
    this.view = view;
    for (const [name, head] of Object.entries(this.heads)) this.#drawHead(name, head);
    const tenants = rows.filter(({ kind }) => kind in COUNTED);
    const shown = new Set(tenants.slice(0, this.isWhole ? undefined : FEW).map(({ key }) => key));
    const hidden = tenants.length - Math.min(tenants.length, FEW);
    reconcile(
      this.rows,
      rows.filter(({ kind, key }) => !(kind in COUNTED) || shown.has(key) || key === whose),
      ({ key }) => key,
      (row) => this.#row(row),
      (node, row) => this.#patch(node, row, whose),
    );
    setAttribute(this.more, "hidden", !hidden);
    setText(this.more, this.isWhole ? "Show fewer" : `Show ${count(hidden)} more`);
    setAttribute(this.more, "aria-expanded", String(this.isWhole));
  }

  #fold() {
    this.isWhole = !this.isWhole;
    this.draw(...this.last);
  }

  #head(name) {
    const mark = el("span", { class: "mark" });
    const head = el("th", { scope: "col", class: "number", tabindex: "0", "data-column": name }, el("span", {}, COLUMNS[name][0]), mark);
    this.tip.describe(head, () => [
      COLUMNS[name][0],
      this.view?.unit === "hashes" ? CACHED_HASHES : COLUMNS[name][1],
      this.certainties[this.#certainty(name)],
    ]);
    return head;
  }

  #certainty(name) {
    const told = SHARES.includes(name) ? this.view?.[name] : this.view?.evictions;
    return told?.certainty ?? "not_observable";
  }

  #drawHead(name, head) {
    const isThere = SHARES.includes(name) ? this.view[name] !== null : this.view.evictions !== null;
    setAttribute(head, "hidden", !isThere);
    const when = !SHARES.includes(name) && this.view.evictions ? ` ${windowWords(this.view.evictions)}` : "";
    setText(head.firstChild, `${COLUMNS[name][0]}${when}`);
    const certainty = this.#certainty(name);
    setAttribute(head.lastChild, "data-certainty", certainty);
    setAttribute(head.lastChild, "role", "img");
    setAttribute(head.lastChild, "aria-label", certainty);
  }

  #row(row) {
    const { on } = this;
    const parts = {
      swatch: el("i", { class: "swatch" }),
      name: el("b", { class: "name" }),
      kind: el("span", { class: "faint" }),
      cells: Object.keys(COLUMNS).map((name) => cell(SHARES.includes(name))),
    };
    const content = [parts.swatch, parts.name, parts.kind];
    if (row.kind === "others") parts.press = el("span", { class: "who" }, ...content);
    else if (on.hrefOf) parts.press = el("a", { class: "who" }, ...content);
    else parts.press = el("button", { class: "who", type: "button", onclick: () => on.toggle(row.key) }, ...content);
    const node = el("tr", { "data-kind": row.kind }, el("th", { scope: "row" }, parts.press), ...parts.cells.map(({ node }) => node));
    node.kxParts = parts;
    node.kxRow = row;
    this.tip.describe(parts.press, () => rowLines(node.kxRow, this.view, on.marks));
    return node;
  }

  #patch(node, row, whose) {
    const { swatch, name, kind, cells, press } = node.kxParts;
    node.kxRow = row;
    const [words, beside] = rowName(row);
    setAttribute(node, "data-chosen", row.key === whose);
    setAttribute(swatch, "data-part", partOf(row));
    setText(name, words);
    setText(kind, beside);
    if (press.tagName === "BUTTON") setAttribute(press, "aria-pressed", String(row.key === whose));
    if (press.tagName === "A") setAttribute(press, "href", this.on.hrefOf(row.key));
    Object.keys(COLUMNS).forEach((column, at) => this.#patchCell(cells[at], column, row));
  }

  #patchCell({ node, amount, share, fill }, column, row) {
    setAttribute(node, "hidden", this.heads[column].hidden);
    if (!fill) return setText(amount, row[column] === null ? NO_DATA : count(row[column]));
    const part = shareOf(row[column], this.view[column]);
    const [number, percent] = amountWords(row[column], part);
    setText(amount, number);
    setText(share, percent);
    setAttribute(fill, "data-part", partOf(row));
    setStyle(fill, "width", `${(100 * (part ?? 0)).toFixed(2)}%`);
  }
}

const COUNTED = { tenant: true, salt: true, lora: true, session: true };

function cell(hasShare) {
  const amount = el("b");
  if (!hasShare) return { node: el("td", { class: "number" }, amount), amount };
  const [share, fill] = [el("span", { class: "muted" }), el("i")];
  const bar = el("span", { class: "tenants-track", "aria-hidden": "true" }, fill);
  return { node: el("td", { class: "number" }, el("span", { class: "pair" }, amount, share), bar), amount, share, fill };
}
