// What became different between two moments: a sentence, blocks by kind of change, and who gained and lost holds. Each
// kind lights its blocks up in both pictures.

import { el, reconcile, setAttribute, setText } from "./elements.js";
import { count, duration, plural } from "./format.js";

const KINDS = {
  allocated: "allocated",
  freed: "freed",
  cached: "cached",
  evicted: "evicted",
  referenced: "more references",
  dereferenced: "fewer references",
  holders: "other holders",
  filled: "more or fewer slots written",
  learned: "became known",
  forgotten: "no longer known",
};
const HOLDERS = 6;

export class DiffPanel {
  constructor(selection, moment) {
    this.selection = selection;
    this.sentence = el("div", { class: "sentence", role: "status" });
    this.kinds = el("div", { class: "kinds" });
    this.holders = el("div", { class: "diff-holders" });
    const swap = el("button", { class: "quiet-button", onclick: () => moment.swap() }, "Swap");
    const exit = el("button", { class: "quiet-button", onclick: () => moment.compare(null) }, "Stop comparing");
    this.node = el(
      "div",
      { class: "diff", hidden: true, role: "region", "aria-label": "Differences" },
      el("div", { class: "diff-head" }, this.sentence, swap, exit),
      this.kinds,
      this.holders,
    );
  }

  /** `told`: the answer of /api/diff, or null; `ends`: both moments, the earlier first, or null. */
  draw(told, problem, ends) {
    setText(this.sentence, problem || (told && ends ? sentence(told, ends) : "Comparing"));
    const shown = told ? Object.keys(KINDS).filter((kind) => told.counts[kind] > 0) : [];
    reconcile(
      this.kinds,
      shown,
      (kind) => kind,
      (kind) =>
        el("button", { class: "quiet-button", onclick: () => this.#light(kind) }, el("b"), ` ${KINDS[kind]}`),
      (node, kind) => this.#patchKind(node, kind, told),
    );
    setAttribute(this.kinds, "hidden", !shown.length);
    this.#drawHolders(told?.holders ?? []);
  }

  #patchKind(node, kind, told) {
    this.told = told;
    setText(node.firstChild, count(told.counts[kind]));
    setAttribute(node, "aria-pressed", String(this.selection.lit?.label === KINDS[kind]));
  }

  #light(kind) {
    const label = KINDS[kind];
    const isLit = this.selection.lit?.label === label;
    this.selection.light(isLit ? null : { label, blocks: this.told.blocks[kind] });
  }

  #drawHolders(holders) {
    const shown = holders.slice(0, HOLDERS);
    const more = holders.length - shown.length;
    reconcile(
      this.holders,
      more > 0 ? [...shown, { holder: "more", more }] : shown,
      (change) => change.holder,
      (change) => (change.more ? el("span", { class: "faint" }) : this.#holder(change)),
      patchHolder,
    );
    setAttribute(this.holders, "hidden", !shown.length);
  }

  #holder({ request_id: request }) {
    const select = () => this.selection.selectRequest(request);
    return el(
      "span",
      { class: "holder" },
      el("button", { class: "link mono", onclick: select }, request),
      el("span", { class: "gained" }),
      el("span", { class: "lost" }),
    );
  }
}

function patchHolder(node, change) {
  if (change.more) return setText(node, `and ${plural(change.more, "more holder")}`);
  setText(node.children[1], change.gained ? `+${count(change.gained)}` : "");
  setText(node.children[2], change.lost ? `−${count(change.lost)}` : "");
}

function sentence(told, [first, last]) {
  if (first.at === last.at) return "This is the moment you keep. Go to another to compare.";
  const seconds = (Date.parse(last.time) - Date.parse(first.time)) / 1000;
  const apart = seconds < 1 ? `${Math.round(seconds * 1000)} ms` : duration(seconds);
  const changed = told.changed
    ? `${plural(told.changed, "block")} differ${told.changed === 1 ? "s" : ""}`
    : "No block differs";
  return `${changed} between ${first.at} and ${last.at}, ${apart} later.`;
}
