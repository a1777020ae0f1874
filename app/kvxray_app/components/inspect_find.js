// Where to begin when nothing is selected: what to press, or what to write.

import { el } from "./elements.js";

const HASH = /^([0-9a-f]{2}){8,32}$/i;

export class FindSubject {
  constructor(selection) {
    this.selection = selection;
    this.input = el("input", {
      type: "text",
      maxlength: 512,
      placeholder: "Block number, request id or hash",
      "aria-label": "Block number, request id or block hash",
    });
    // Streamlit has keys of its own, and cannot see that somebody types within a component.
    this.input.addEventListener("keydown", (event) => event.stopPropagation());
    this.node = el(
      "div",
      { class: "note" },
      el("b", {}, "Nothing selected"),
      "Click a block on the map, or focus the map, move with the arrow keys and press Enter. ",
      "Or choose a request.",
      el(
        "form",
        { class: "find", onsubmit: (event) => this.#find(event) },
        this.input,
        el("button", { class: "quiet-button", type: "submit" }, "Inspect"),
      ),
    );
  }

  #find(event) {
    event.preventDefault();
    const text = this.input.value.trim();
    if (!text) return;
    this.input.value = "";
    if (/^\d{1,9}$/.test(text)) this.selection.selectBlock(Number(text));
    else if (HASH.test(text)) this.selection.selectPrefix(text.toLowerCase());
    else this.selection.selectRequest(text);
  }
}
