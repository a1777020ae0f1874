// Tooltips that explain: one floating card a component, in the browser's top layer so that nothing clips it. An
// element asks for one by `describe(node, () => [lines])`; it shows on hover and on keyboard focus, and Escape
// closes it.

import { el } from "./elements.js";

const GAP = 8;

export class Tip {
  constructor(parent) {
    this.card = el("div", { class: "kx-tip", role: "tooltip", popover: "manual" });
    parent.append(this.card);
    this.target = null;
    this.onMove = (event) => event.composedPath().includes(this.target) || this.hide();
  }

  /** Explain `node` by the lines that `lines()` gives when asked; the first is set off as a title. */
  describe(node, lines) {
    node.addEventListener("pointerenter", () => this.show(node, lines()));
    node.addEventListener("pointerleave", () => this.hide(node));
    node.addEventListener("focus", () => this.show(node, lines()));
    node.addEventListener("blur", () => this.hide(node));
    node.addEventListener("keydown", (event) => event.key === "Escape" && this.hide(node));
  }

  show(node, lines) {
    const shown = lines.filter(Boolean);
    if (!shown.length) return;
    this.target = node;
    // An element that is taken away while it is pointed at tells nothing: the next move of the pointer does.
    document.addEventListener("pointermove", this.onMove);
    this.card.replaceChildren(...shown.map((line, row) => el("div", { class: row ? "line" : "title" }, line)));
    if (!this.card.matches(":popover-open")) this.card.showPopover();
    this.#place(node.getBoundingClientRect());
  }

  hide(node = this.target) {
    if (node !== this.target) return;
    this.target = null;
    document.removeEventListener("pointermove", this.onMove);
    if (this.card.matches(":popover-open")) this.card.hidePopover();
  }

  close() {
    this.hide();
  }

  #place(box) {
    const { offsetWidth: width, offsetHeight: height } = this.card;
    const left = Math.min(Math.max(GAP, box.left + box.width / 2 - width / 2), innerWidth - width - GAP);
    const below = box.bottom + GAP;
    const top = below + height > innerHeight - GAP ? Math.max(GAP, box.top - height - GAP) : below;
    this.card.style.left = `${left}px`;
    this.card.style.top = `${top}px`;
  }
}
