// The legend of the map of cached hashes: its classes with live counts. Press one and the others step back.

import { el, reconcile, setAttribute, setText } from "./elements.js";
import { count } from "./format.js";

const UNREACHABLE =
  "Hatched: a block before it in its chain is gone, so that no prompt can reach it any more. It only takes up room.";

export class ResidencyLegend {
  constructor(tip, view) {
    this.view = view;
    this.chips = el("span", { class: "chips", role: "group", "aria-label": "Legend" });
    this.unreachable = el(
      "span",
      { class: "chip", tabindex: "0", hidden: true },
      el("i", { class: "swatch", "data-state": "leaked" }),
      "unreachable ",
      el("b"),
    );
    tip.describe(this.unreachable, () => ["Unreachable", UNREACHABLE]);
    this.node = el("div", { class: "legend" }, this.chips, this.unreachable);
  }

  /** `classes` and how many cells are of each (`counts`, null before there are any); `unreachable`: cells. */
  draw(classes, counts, palette, unreachable) {
    const { mode, only } = this.view;
    setAttribute(this.node, "data-filtered", only !== null);
    reconcile(
      this.chips,
      classes
        .map((one, at) => ({ ...one, at }))
        .filter(({ name, at }) => name !== "unknown" || counts?.[at] > 0)
        .reverse(),
      ({ at, name }) => `${mode} ${at} ${name}`,
      ({ at, name }) =>
        el(
          "button",
          { class: "chip", type: "button", title: "Press to make it stand out", onclick: () => this.view.toggle(at) },
          el("i", { class: "swatch" }),
          el("span", {}, name),
          el("b"),
        ),
      (node, { at, colour }) => {
        node.firstChild.style.setProperty("--swatch", palette[`kx-${colour}`]);
        setText(node.lastChild, counts ? count(counts[at]) : "");
        setAttribute(node, "aria-pressed", String(Boolean(only?.has(at))));
      },
    );
    setAttribute(this.unreachable, "hidden", !unreachable);
    setText(this.unreachable.lastChild, count(unreachable));
  }
}
