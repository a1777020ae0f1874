// What to switch on at an engine so that it tells of its cache: the exact words, to copy.

import { el, setAttribute, setText } from "./elements.js";
import { copyFrom } from "./inspect_copy.js";

export class SwitchOn {
  constructor() {
    this.tells = el("p", { class: "muted" });
    this.steps = el("div", { class: "steps" });
    this.note = el("p", { class: "hint" });
    this.node = el("div", { class: "switch-on" }, this.tells, this.steps, this.note);
  }

  draw(make) {
    setText(this.tells, `${make.label}: ${make.tells}`);
    this.steps.replaceChildren(...make.steps.map(stepOf));
    setText(this.note, make.note);
    setAttribute(this.note, "hidden", !make.note);
  }
}

function stepOf({ why, text }) {
  if (!text) return el("p", {}, why);
  const copy = el("button", { type: "button", class: "quiet-button", onclick: () => copyFrom(copy, text) }, "Copy");
  const code = el("pre", { tabindex: "0", role: "group", "aria-label": why }, el("code", {}, text));
  return el("div", { class: "to-copy" }, el("p", {}, why), code, copy);
}
