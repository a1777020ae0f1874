// Attaching an engine: a form, a test of the connection with what it found, and the way on once it is attached.

import { apiUrl, getJson, sendJson } from "./address.js";
import { AttachForm } from "./attach_form.js";
import { foundNodes } from "./attach_found.js";
import { specOf } from "./attach_spec.js";
import { el, setAttribute } from "./elements.js";
import { defineComponent } from "./mount.js";
import { pageUrl } from "./overview_links.js";
import { applyTheme } from "./theme.js";

const ORIGINS = { settings: "the settings", file: "the file of engines" };
const NAMED = /^Mend (\w+): /;

class Attach {
  constructor(root, { attach: words }) {
    this.root = root;
    this.words = words;
    this.request = null;
    this.form = new AttachForm(words, {
      changed: () => this.#changed(),
      test: () => this.#test(),
      attach: () => this.#attach(),
    });
    this.found = el("div", { class: "panel result", role: "region", "aria-label": "What was found", tabindex: "-1" });
    this.status = el("div", { class: "sr-only", role: "status" });
    const title = el("h1", {}, "Attach an engine");
    this.already = el("p", { class: "panel already", hidden: true });
    root.append(title, this.already, el("div", { class: "columns" }, this.form.node, this.found), this.status);
    this.#show(
      el("b", {}, "Nothing was tested yet"),
      el("p", {}, "A test listens for some seconds and changes nothing, here or at the engine. Then it says what was "
        + "heard, and which panels will be exact, derived or not observable."),
    ); // prettier-ignore
    this.#askNames();
  }

  close() {
    this.isClosed = true;
    this.request?.abort();
    this.root.replaceChildren();
  }

  async #askNames() {
    const told = await getJson("engines").catch(() => null); // a suggestion can do without
    if (!told || this.isClosed) return;
    this.form.avoid(told.engines.map(({ name }) => name));
    this.#beginWith(told.engines);
  }

  // Whoever comes from the page of an engine that is attached finds what is known of it in the form.
  #beginWith(engines) {
    const source = new URLSearchParams(location.search).get("source");
    const engine = engines.find(({ name, sources }) => name === source || sources.includes(source));
    if (!engine || this.begun) return;
    this.begun = true;
    if (!this.form.begin(engine)) return;
    setAttribute(this.already, "hidden", false);
    this.already.replaceChildren(el("b", {}, `${engine.name} is attached already. `), ...alreadyWords(engine));
  }

  // What stands beside the form is of what was typed when it was tested.
  #changed() {
    setAttribute(this.found, "data-old", this.found.querySelector(".verdict") !== null);
  }

  async #test() {
    const done = await this.#send("engines/test", "Listening; this takes up to six seconds.");
    if (!done) return;
    this.#show(...foundNodes(done.answer, this.words));
    this.status.textContent = done.answer.sentence;
    this.found.focus();
  }

  async #attach() {
    const done = await this.#send("engines", "Attaching it.");
    if (!done) return;
    const { name } = done.spec;
    const live = el("a", { class: "main-button", href: pageUrl("live", name) }, "Open its live page");
    const fleet = el("a", { class: "quiet-button", href: new URL("../fleet", apiUrl("")).href }, "See all engines");
    this.#show(
      el("b", {}, `${name} is attached`),
      el("p", {}, "It is followed from now on, also after a restart of kvxray, until somebody removes it."),
      el("p", { class: "actions" }, live, fleet),
    );
    this.status.textContent = `${name} is attached.`;
    live.focus();
    this.#askNames();
  }

  /** Send what was typed; `{spec, answer}`, or nothing where it was refused, which is said beside the field. */
  async #send(path, meanwhile) {
    const { spec, problems } = specOf(this.form.values());
    this.form.say(problems);
    if (Object.keys(problems).length) return null;
    const request = (this.request = new AbortController());
    this.#show(el("b", {}, meanwhile));
    this.status.textContent = meanwhile;
    this.form.busy(true);
    try {
      return { spec, answer: await sendJson("POST", path, {}, spec, request.signal) };
    } catch (error) {
      if (error.name === "AbortError") return null;
      this.#show(el("b", {}, error.status === 0 ? "No answer" : "It was refused"), el("p", {}, error.message));
      this.status.textContent = ""; // the field says it
      this.form.busy(false); // what is to be mended gets the focus
      this.form.say({ [fieldOf(error)]: error.message });
      return null;
    } finally {
      this.form.busy(false);
    }
  }

  #show(...nodes) {
    setAttribute(this.found, "data-old", null);
    this.found.replaceChildren(...nodes);
    this.found.scrollTop = 0;
  }
}

// How an engine that is attached gets more addresses.
function alreadyWords({ name, origin, removable }) {
  if (!removable) return [`It comes from ${ORIGINS[origin] ?? "elsewhere"}: add its addresses there.`];
  const fleet = el("a", { class: "link", href: new URL("../fleet", apiUrl("")).href }, "the fleet");
  return ["To give it more addresses, test them here, remove it from ", fleet, ` and attach it again as ${name}: its history stays.`];
}

const fieldOf = ({ field, status, message }) =>
  field || NAMED.exec(message)?.[1] || (status === 409 ? "name" : "form");

export const mount = defineComponent("attach", ({ parentElement, data }) => {
  applyTheme(parentElement, data.palettes);
  const view = new Attach(parentElement.querySelector(".kx"), data);
  return {
    update: (next) => applyTheme(next.parentElement, next.data.palettes),
    destroy: () => view.close(),
  };
});
