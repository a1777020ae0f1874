// The attach form: what the engine is, what to switch on there, where it tells of itself, and what it is called here.

import { Field, choice, numberInput, radios, textInput } from "./attach_field.js";
import { suggestedName } from "./attach_spec.js";
import { SwitchOn } from "./attach_switch_on.js";
import { el, setAttribute, setText } from "./elements.js";

export class AttachForm {
  /** `changed()`: something was typed. `test()`, `attach()`: the buttons. */
  constructor(words, { changed, test, attach }) {
    this.words = words;
    this.make = words.makes[0];
    this.metricsBy = "metrics";
    this.taken = [];
    this.switchOn = new SwitchOn();
    this.fields = makeFields(words);
    const makes = words.makes.map(({ key, label }) => [key, label]);
    const { events, replay, metrics, prometheus, match, ranks, name, role, labels } = this.fields;
    this.metricsBox = radios("metrics_by", "Metrics", METRICS_BY, (value) => this.#readBy(value));
    this.seldom = this.#seldom();
    this.problem = el("p", { class: "problem", role: "alert" });
    this.testing = el("button", { class: "main-button", type: "submit" }, "Test the connection");
    this.attaching = el("button", { class: "strong-button", type: "button", onclick: attach }, "Attach");
    this.node = el(
      "form",
      { novalidate: true, "aria-label": "Attach an engine", onsubmit: (event) => (event.preventDefault(), test()) },
      section("1", "What is it?", radios("make", "Make of the engine", makes, (key) => this.#choose(key))),
      section("2", "Switch it on there", this.switchOn.node),
      section("3", "Where is it?", row(events.node, replay.node, ranks.node), this.metricsBox, metrics.node,
        row(prometheus.node, match.node)),
      section("4", "What is it called here?", row(name.node, role.node), labels.node, this.seldom),
      el("div", { class: "actions" }, this.testing, this.attaching),
      this.problem,
    ); // prettier-ignore
    this.node.addEventListener("input", () => (this.#suggest(), changed()));
    this.#choose(this.make.key);
  }

  /** What the fields hold; those that the make or the choice of metrics does not have are empty. */
  values() {
    const typed = Object.fromEntries(
      Object.entries(this.fields).map(([name, field]) => [name, field.node.hidden ? empty(field) : field.value]),
    );
    const name = typed.name.trim() || this.fields.name.input.placeholder;
    return { ...typed, name, make: this.make.key, metrics_by: this.metricsBy };
  }

  /** Names that are given already; the suggestion keeps clear of them. */
  avoid(taken) {
    this.taken = taken;
    this.#suggest();
  }

  /**
   * What is known of an engine that is attached, unless something was typed: make, name, role and labels. Its addresses are
   * nobody's to tell. Returns whether it did.
   */
  begin({ make, name, role, labels }) {
    const { fields } = this;
    const isTouched = Object.values(fields).some(({ input }) => input.type === "text" && input.value);
    if (isTouched || !this.words.makes.some(({ key }) => key === make)) return false;
    this.node.querySelector(`input[name=make][value=${make}]`).checked = true;
    fields.name.input.value = name;
    fields.labels.input.value = Object.entries(labels).map((pair) => pair.join("=")).join(", ");
    if (role in this.words.roles) fields.role.input.value = role;
    this.#choose(make);
    return true;
  }

  /** Sentences beside their fields, all others cleared; what is of no field that is seen stands at the foot. */
  say(problems) {
    for (const [name, field] of Object.entries(this.fields)) field.say(problems[name] ?? "");
    const own = Object.keys(problems).filter((name) => this.fields[name] && !this.fields[name].node.hidden);
    const rest = Object.keys(problems).filter((name) => !own.includes(name));
    setText(this.problem, rest.map((name) => problems[name]).join(" "));
    const first = this.fields[own[0]];
    if (!first) return;
    if (this.seldom.contains(first.node)) this.seldom.open = true;
    first.input.focus();
  }

  busy(isBusy) {
    for (const button of [this.testing, this.attaching]) setAttribute(button, "disabled", isBusy);
  }

  #choose(key) {
    this.make = this.words.makes.find((make) => make.key === key);
    for (const name of ["events", "replay", "metrics"]) {
      this.fields[name].input.placeholder = this.make[name];
      setAttribute(this.fields[name].node, "hidden", !this.make[name]);
    }
    setAttribute(this.fields.ranks.node, "hidden", !this.make.replay);
    setAttribute(this.seldom, "hidden", !this.make.events);
    this.switchOn.draw(this.make);
    this.#readBy(this.metricsBy);
    this.#suggest();
  }

  #readBy(way) {
    this.metricsBy = way;
    setAttribute(this.fields.metrics.node, "hidden", way !== "metrics");
    for (const name of ["prometheus", "match"])
      setAttribute(this.fields[name].node, "hidden", way !== "prometheus");
  }

  #suggest() {
    const { name } = this.fields;
    name.input.placeholder = suggestedName({ ...this.values(), name: "" }, this.taken);
  }

  #seldom() {
    const { topic, bind, store_semantics: repeats, num_blocks: blocks } = this.fields;
    const summary = el("summary", {}, "Seldom needed");
    return el("details", {}, summary, row(topic.node, blocks.node), repeats.node, bind.node);
  }
}

const METRICS_BY = [
  ["metrics", "its own page"],
  ["prometheus", "a Prometheus that has them"],
];

function makeFields({ roles, repeats }) {
  const listen = el("input", { type: "checkbox" });
  const fields = [
    new Field("events", "Events", textInput(), "Where it publishes what its cache does."),
    new Field("replay", "Replay", textInput(), "Where it answers for what was missed; may be left out."),
    new Field("ranks", "Ranks", numberInput("1"), "Data-parallel; each one port further."),
    new Field("metrics", "Metrics page", textInput(), "Tells the cache in use, hit rate and queues; may be left out."),
    new Field("prometheus", "Prometheus", textInput("http://HOST:9090"), "Also Thanos, Mimir, VictoriaMetrics."),
    new Field("match", "Which engine in it", textInput("pod=vllm-0, namespace=prod"), "Labels, with commas between."),
    new Field("name", "Name", textInput(), "Left empty: the one shown."),
    new Field("role", "Role", choice(roles), "In a split deployment."),
    new Field("labels", "Labels", textInput("node=gpu-7, namespace=prod"), "To find it by; may be left out."),
    new Field("topic", "Topic", textInput(), "Only topics that begin so."),
    new Field("num_blocks", "Blocks of its cache", numberInput(), "Where nothing tells how many there are."),
    new Field("store_semantics", "A block told twice is", choice(repeats), "vLLM: a copy, unless it reports reuse."),
    new Field("bind", "Listen at the events address", listen, "For an engine that dials out instead of listening."),
  ];
  return Object.fromEntries(fields.map((field) => [field.name, field]));
}

const empty = (field) => (field.input.type === "checkbox" ? false : field.name === "role" ? "both" : "");

const row = (...nodes) => el("div", { class: "fields" }, ...nodes);

const section = (number, title, ...nodes) =>
  el("section", { class: "panel step" }, el("h2", {}, el("b", { "aria-hidden": "true" }, number), title), ...nodes);
