// Who pushed whom out of the cache: pairs of tenants, the most blocks first.

import { el, reconcile, setAttribute, setText } from "./elements.js";
import { plural } from "./format.js";
import { whoseKey } from "./tenants_choice.js";
import { lackWords, rowName, windowWords } from "./tenants_words.js";

const FEW = 4;

export class TenantsEvictions {
  constructor() {
    this.head = el("h3", {}, "Who pushed whom out");
    this.list = el("ol", { class: "tenants-pairs" });
    this.words = el("p", { class: "muted" });
    this.node = el("div", { class: "tenants-evictions" }, this.head, this.list, this.words);
  }

  /** `partOf(key)`: the colour of a tenant. */
  draw(view, partOf) {
    const { evictions } = view;
    const pairs = evictions?.pairs ?? [];
    setAttribute(this.list, "hidden", !pairs.length);
    reconcile(
      this.list,
      pairs.slice(0, FEW).map((pair) => ({ ...pair, key: JSON.stringify([pair.lost, pair.took]) })),
      ({ key }) => key,
      () => el("li", {}, ...[0, 1].map(side), el("b", { class: "number" })),
      (node, { lost, took, blocks }) => {
        [took, lost].forEach((who, at) => drawSide(node.children[at], who, partOf));
        setText(node.lastChild, plural(blocks, "block"));
      },
    );
    setText(this.words, evictionWords(view, pairs));
  }
}

function side(_, at) {
  const before = at ? el("span", { class: "muted" }, "took from") : null;
  return el("span", { class: "who" }, before, el("i", { class: "swatch" }), el("b"));
}

function drawSide(node, { tenant, told_by }, partOf) {
  const name = node.lastChild;
  setAttribute(name.previousSibling, "data-part", partOf(whoseKey(told_by, tenant)));
  setText(name, rowName({ kind: told_by, name: tenant })[0]);
  setAttribute(name, "title", tenant.slice(0, 500));
}

function evictionWords(view, pairs) {
  const { evictions } = view;
  if (!evictions) return view.no_evictions;
  const when = windowWords(evictions);
  if (!evictions.num) return `Nobody: no block was evicted to make room ${when}. ${lackWords(view)}`.trim();
  const more = pairs.length > FEW ? `${plural(pairs.length - FEW, "more pair")}. ` : "";
  const nobody = pairs.length ? "" : "No tenant took from another that is known. ";
  return `${more}${nobody}${plural(evictions.num, "eviction")} to make room ${when}. ${lackWords(view)}`.trim();
}
