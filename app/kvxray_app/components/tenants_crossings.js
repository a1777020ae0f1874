// Prefixes that two tenants hold at once though their salts are to part them: the finding beside the shares, with its
// blocks.

import { el, reconcile, setAttribute, setText } from "./elements.js";
import { count, plural } from "./format.js";

const KIND = "cross_tenant_prefix";
const FEW = 8;

export class TenantsCrossings {
  constructor() {
    this.sentence = el("p");
    this.blocks = el("span", { class: "tenants-blocks" });
    this.more = el("span", { class: "muted" });
    this.node = el("div", { class: "tenants-crossing", hidden: true }, this.sentence, el("p", {}, this.blocks, this.more));
  }

  /** `findings`: those open; `hrefOf(block, at)`: where a block is looked at. */
  draw(findings, hrefOf) {
    const found = findings.find(({ kind }) => kind === KIND);
    setAttribute(this.node, "hidden", !found);
    if (!found) return;
    setText(this.sentence, found.sentence);
    const blocks = found.subjects.blocks ?? [];
    reconcile(
      this.blocks,
      blocks.slice(0, FEW),
      (block) => block,
      (block) => el("a", { class: "link" }, `block ${block}`),
      (node, block) => setAttribute(node, "href", hrefOf(block, `${found.epoch}.${found.seq1}`)),
    );
    const left = (found.numbers?.blocks ?? blocks.length) - Math.min(blocks.length, FEW);
    setText(this.more, left > 0 ? `and ${plural(left, "more block", "more blocks")}` : "");
    setAttribute(this.node, "data-blocks", count(blocks.length));
  }
}
