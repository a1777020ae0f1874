// Tabs: one part of a page at a time, chosen by pointer or by arrow keys.

import { el, setAttribute, setText } from "./elements.js";

export class Tabs {
  /** `names`: {key: label}; `panels`: {key: node}; `choose(key)`: called when somebody wants one. */
  constructor(label, names, panels, choose) {
    this.keys = Object.keys(names);
    this.choose = choose;
    this.panels = panels;
    this.buttons = this.keys.map((key) => this.#button(key, names[key]));
    this.node = el("div", { class: "tabs", role: "tablist", "aria-label": label }, ...this.buttons);
    for (const key of this.keys) {
      const about = { id: `panel-${key}`, role: "tabpanel", "aria-labelledby": `tab-${key}` };
      for (const [name, value] of Object.entries(about)) panels[key].setAttribute(name, value);
    }
    this.node.addEventListener("keydown", (event) => this.#key(event));
  }

  /** `counts`: {key: text beside its name}. */
  draw(chosen, counts) {
    this.buttons.forEach((button, at) => {
      const key = this.keys[at];
      const isChosen = key === chosen;
      setAttribute(button, "aria-selected", String(isChosen));
      setAttribute(button, "tabindex", isChosen ? "0" : "-1");
      setText(button.lastChild, counts[key] ?? "");
      setAttribute(this.panels[key], "hidden", !isChosen);
    });
  }

  #button(key, label) {
    const about = { id: `tab-${key}`, role: "tab", "aria-controls": `panel-${key}`, onclick: () => this.choose(key) };
    return el("button", about, label, el("span", { class: "faint number" }));
  }

  #key(event) {
    const at = this.buttons.findIndex((button) => button === event.target.closest("[role=tab]"));
    const steps = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 };
    if (at < 0 || !(event.key in steps)) return;
    const next = (steps[event.key] + this.keys.length) % this.keys.length;
    event.preventDefault();
    this.choose(this.keys[next]);
    this.buttons[next].focus();
  }
}
