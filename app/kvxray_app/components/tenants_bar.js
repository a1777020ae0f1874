// All that is held, or cached, as one bar in parts by tenant: those of most in colours of their own, then what is shared,
// all others, and what is not told or not known.

import { el, reconcile, setAttribute, setStyle } from "./elements.js";

const RANKED = ["others", "several", "not_told", "unknown"];

export class TenantsBar {
  constructor(label) {
    this.node = el("div", { class: "tenants-bar", role: "img", "aria-label": label });
  }

  /** `rows`: as the table has them, with a `place` among colours (undefined: none); `column`: which amount of theirs. */
  draw(rows, column, label) {
    const parts = new Map();
    for (const row of rows) if (row[column] > 0) parts.set(partOf(row), (parts.get(partOf(row)) ?? 0) + row[column]);
    setAttribute(this.node, "aria-label", label);
    reconcile(
      this.node,
      [...parts].sort(([a], [b]) => rank(a) - rank(b)),
      ([part]) => part,
      ([part]) => el("i", { "data-part": part }),
      (node, [, amount]) => setStyle(node, "flex-grow", String(amount)),
    );
  }
}

/** Which colour a row has: its place among those named, or what it is. */
export const partOf = ({ kind, place }) => (RANKED.includes(kind) ? kind : place === undefined ? "others" : String(place + 1));

const rank = (part) => RANKED.indexOf(part); // those with a colour of their own come first, as they are told
