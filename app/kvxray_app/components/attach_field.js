// Fields of the attach form: each with its label, a hint, and room for the sentence that says what is wrong with it.

import { el, setAttribute, setText } from "./elements.js";

/** One field around an input, select or textarea. `label`, `hint`: its words. */
export class Field {
  constructor(name, label, input, hint = "") {
    this.name = name;
    this.input = input;
    input.id = `attach-${name}`;
    this.hint = el("span", { class: "hint", id: `${input.id}-hint` }, hint);
    this.problem = el("span", { class: "problem", id: `${input.id}-problem` });
    input.setAttribute("aria-describedby", `${this.hint.id} ${this.problem.id}`);
    this.label = el("label", { for: input.id }, label);
    this.node = el("div", { class: "field", "data-field": name }, this.label, input, this.hint, this.problem);
  }

  get value() {
    return this.input.type === "checkbox" ? this.input.checked : this.input.value;
  }

  say(sentence) {
    setText(this.problem, sentence);
    setAttribute(this.input, "aria-invalid", sentence ? "true" : null);
  }
}

export const textInput = (placeholder = "") =>
  el("input", { type: "text", placeholder, autocomplete: "off", spellcheck: "false", maxlength: 2000 });

export const numberInput = (placeholder = "") =>
  el("input", { type: "text", inputmode: "numeric", placeholder, autocomplete: "off", maxlength: 14 });

export const choice = (options) =>
  el("select", {}, ...Object.entries(options).map(([value, text]) => el("option", { value }, text)));

/** Buttons of which one is chosen: `options` as `[value, label]`. `changed(value)`: called when another one is. */
export function radios(name, legend, options, changed) {
  const made = options.map(([value, label], at) => {
    const input = el("input", { type: "radio", name, value, checked: at === 0, onchange: () => changed(value) });
    return el("label", { class: "radio" }, input, el("span", {}, label));
  });
  return el("fieldset", { class: "radios" }, el("legend", {}, legend), ...made);
}
