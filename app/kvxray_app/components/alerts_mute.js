// Asks for how long nobody is to be told of an alert, and of which: this engine's, or the rule's everywhere.

import { sendJson } from "./address.js";
import { el, setAttribute, setText } from "./elements.js";

export class AlertMute {
  /** `muted()`: called when it is. */
  constructor(words, muted) {
    this.muted = muted;
    this.alert = null;
    this.title = el("h2", { id: "mute-title" });
    this.times = choice("For how long", "mute-for", words.mutes, "2h");
    this.scope = choice("Of what", "mute-scope", { engine: "", rule: "" }, "engine");
    this.note = el("input", { id: "mute-note", maxlength: "200", autocomplete: "off" });
    this.problem = el("p", { class: "problem", role: "alert" });
    this.yes = el("button", { class: "main-button", type: "submit" }, "Mute it");
    const no = el("button", { class: "quiet-button", type: "button", onclick: () => this.node.close() }, "Cancel");
    const form = el(
      "form",
      { onsubmit: (event) => this.#submit(event) },
      this.title,
      el("p", { class: "muted" }, "The alert goes on and is kept; nobody is told of it meanwhile."),
      this.times,
      this.scope,
      el("label", { for: "mute-note" }, "Why (others read it)"),
      this.note,
      this.problem,
      el("div", { class: "actions" }, no, this.yes),
    );
    this.node = el("dialog", { class: "mute", "aria-labelledby": "mute-title" }, form);
  }

  ask(alert) {
    this.alert = alert;
    setText(this.title, `Mute ${alert.rule}`);
    const [engine, rule] = this.scope.querySelectorAll("label span");
    setText(engine, `Only ${alert.engine}`);
    setText(rule, "All engines");
    setText(this.problem, "");
    this.note.value = "";
    this.node.showModal();
  }

  async #submit(event) {
    event.preventDefault();
    setAttribute(this.yes, "disabled", true);
    try {
      await sendJson("POST", "mutes", {}, this.#body());
      this.node.close();
      this.muted();
    } catch (error) {
      setText(this.problem, error.message);
    } finally {
      setAttribute(this.yes, "disabled", false);
    }
  }

  #body() {
    const isEngine = chosen(this.scope) === "engine";
    const { rule, engine } = this.alert;
    return { rule, engine: isEngine ? engine : "", for: chosen(this.times), note: this.note.value.trim() };
  }
}

function choice(legend, name, options, first) {
  const labels = Object.entries(options).map(([value, label]) =>
    el("label", {}, el("input", { type: "radio", name, value, checked: value === first }), el("span", {}, label)),
  );
  return el("fieldset", {}, el("legend", {}, legend), ...labels);
}

const chosen = (field) => field.querySelector("input:checked").value;
