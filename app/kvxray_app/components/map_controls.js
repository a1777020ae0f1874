// What can be pressed around the map: what its colours tell, how its blocks lie, and how large it is.

import { el, setAttribute, setText } from "./elements.js";
import { LAYOUTS, MODES } from "./map_view.js";

const STEP = 1.6;
const MODE_WORDS = {
  state: ["State", "Colours tell the state of each block."],
  references: ["References", "Colours tell how many hold each block."],
  age: ["Age", "Colours tell how long ago each block was allocated."],
  holder: ["Holder", "Colours tell who holds each block."],
  tenant: ["Tenant", "Colours tell for which tenant each block is held."],
  medium: ["Medium", "Colours tell in which memory each block lies."],
};
const LAYOUT_WORDS = {
  id: ["By id", "Blocks lie in the order of their ids."],
  chain: [
    "By prefix",
    "Blocks of one chain of hashes lie side by side; chains that share a prefix share it.",
    "The largest tree of prefixes comes first, blocks without a hash come last.",
    "The order follows the cache, and rests while the pointer is on the map.",
  ],
};
export const LAYOUT_KEY = "o"; // none that moves through time, see time_bar.js

/** A switch between what the colours tell. */
export const modeSwitch = (view, tip) =>
  new Switch("Colours tell", MODES, MODE_WORDS, tip, {
    get: () => view.mode,
    set: (mode) => view.setMode(mode),
  });

/** A switch between how the blocks lie. */
export const layoutSwitch = (view, tip) =>
  new Switch("Blocks lie", LAYOUTS, LAYOUT_WORDS, tip, {
    get: () => view.layout,
    set: (layout) => view.setLayout(layout),
    key: LAYOUT_KEY,
  });

export class Switch {
  /** `words`: of each option a name and what it means, as lines. `on`: {get(), set(option), key: does the same}. */
  constructor(label, options, words, tip, on) {
    Object.assign(this, { options, on });
    this.node = el("div", { class: "modes", role: "radiogroup", "aria-label": label });
    this.node.addEventListener("keydown", (event) => this.#walk(event));
    const hint = on.key ? [`Key on the map: ${on.key.toUpperCase()}`] : [];
    for (const option of options) {
      const button = el(
        "button",
        { type: "button", role: "radio", "data-option": option, onclick: () => on.set(option) },
        words[option][0],
      );
      tip.describe(button, () => [...words[option], ...hint]);
      this.node.append(button);
    }
  }

  draw() {
    for (const [at, option] of this.options.entries()) {
      const isOn = option === this.on.get();
      setAttribute(this.node.children[at], "aria-checked", String(isOn));
      setAttribute(this.node.children[at], "tabindex", isOn ? "0" : "-1");
    }
  }

  // One stop for Tab, arrows within, as radio buttons have it.
  #walk(event) {
    const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
    if (!step) return;
    const { options, on } = this;
    const next = (options.indexOf(on.get()) + step + options.length) % options.length;
    on.set(options[next]);
    this.node.children[next].focus();
    event.preventDefault();
  }
}

/** Buttons that enlarge the map, and how large it is. */
export class ZoomControls {
  /** `zoom(factor)`: around the middle. */
  constructor(zoom) {
    this.out = button("Smaller (−)", "−", () => zoom(1 / STEP));
    this.fit = button("Fit all blocks (0)", "1×", () => zoom(0));
    this.more = button("Larger (+)", "+", () => zoom(STEP));
    this.node = el(
      "div",
      { class: "zoom", role: "group", "aria-label": "Zoom" },
      this.out,
      this.fit,
      this.more,
    );
  }

  draw(part) {
    const { zoom } = part ?? { zoom: 1 };
    setText(this.fit, `${zoom < 9.95 ? Number(zoom.toFixed(1)) : Math.round(zoom)}×`);
    for (const node of [this.out, this.fit]) node.disabled = zoom <= 1;
  }
}

/** What a key does to the zoom: a factor, 0 = fit, or null. */
export function zoomOfKey(key) {
  if (key === "+" || key === "=") return STEP;
  if (key === "-" || key === "_") return 1 / STEP;
  return key === "0" ? 0 : null;
}

const button = (label, text, onclick) =>
  el("button", { class: "zoom-button", type: "button", "aria-label": label, title: label, onclick }, text);
