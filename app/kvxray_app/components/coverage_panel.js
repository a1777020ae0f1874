// What can be known of an engine: every panel of the product as exact, derived or not observable, why, and what spoils it.

import { el, reconcile, setAttribute, setText } from "./elements.js";
import { count } from "./format.js";

const WORDS = { exact: "exact", derived: "derived", not_observable: "not observable" };
const ORDER = Object.keys(WORDS);

export class CoveragePanel {
  /** `show(id)`: brings the finding into sight. */
  constructor(certainties, tip, show) {
    Object.assign(this, { show });
    this.counts = el("span", { class: "counts" });
    this.list = el("ul", { class: "coverage" });
    this.nothing = el("div", { class: "note" }, "Asking what this engine tells.");
    this.node = el(
      "section",
      { class: "panel", "aria-label": "What can be known of this engine" },
      el("div", { class: "panel-head" }, el("h2", {}, "What can be known"), this.counts),
      this.nothing,
      this.list,
    );
    for (const certainty of ORDER) {
      const chip = el("span", { class: "chip", tabindex: "0", "data-is": certainty }, el("i", { class: "mark", "data-certainty": certainty }), `${WORDS[certainty]} `, el("b"));
      tip.describe(chip, () => [certainties[certainty]]);
      this.counts.append(chip);
    }
  }

  /** `coverage`: an answer of `/api/coverage`, null before there is one. */
  draw(coverage) {
    const panels = coverage?.panels ?? [];
    setAttribute(this.nothing, "hidden", panels.length > 0);
    setAttribute(this.counts, "hidden", !panels.length);
    for (const chip of this.counts.children)
      setText(chip.lastChild, count(panels.filter(({ certainty }) => certainty === chip.dataset.is).length));
    reconcile(
      this.list,
      [...panels].sort((a, b) => ORDER.indexOf(a.certainty) - ORDER.indexOf(b.certainty)),
      ({ panel }) => panel,
      ({ panel }) =>
        el(
          "li",
          { "data-panel": panel },
          el("i", { class: "mark" }),
          el("span", { class: "what" }, el("b"), el("span", { class: "certainty" })),
          el("span", { class: "why muted" }, el("span"), el("span", { class: "taints" })),
        ),
      (node, panel) => this.#patch(node, panel),
    );
  }

  #patch(node, { label, certainty, why, taints = [] }) {
    const [mark, what, reason] = node.children;
    setAttribute(node, "data-is", certainty);
    setAttribute(mark, "data-certainty", certainty);
    setText(what.firstChild, label);
    setText(what.lastChild, WORDS[certainty] ?? certainty);
    setText(reason.firstChild, why);
    reconcile(
      reason.lastChild,
      taints,
      (id) => id,
      (id) => el("button", { class: "link", onclick: () => this.show(id) }, "spoiled by a finding"),
      () => {},
    );
  }
}
