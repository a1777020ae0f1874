// All blocks of a pool as one bar, in parts by state, the most used first. Its height and margins are its panel's.

import { el, setAttribute, setStyle } from "./elements.js";

const ORDER = ["shared", "active", "cached", "free", "empty", "unknown"];

export class StateBar {
  constructor() {
    this.node = el("div", { class: "state-bar" }, ...ORDER.map((name) => el("i", { "data-state": name })));
  }

  /** `counts`: figures by state; nothing is drawn of those without a value. */
  draw(counts) {
    for (const part of this.node.children) {
      const blocks = counts?.[part.dataset.state]?.value ?? 0;
      setStyle(part, "flex-grow", String(blocks));
      setAttribute(part, "hidden", blocks === 0);
    }
  }
}
