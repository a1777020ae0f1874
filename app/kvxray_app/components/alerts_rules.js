// All rules by topic: what each says, how it stands, whether it is on; one opens into its runbook.

import { AlertRule } from "./alerts_rule.js";
import { OwnRule } from "./alerts_own.js";
import { el, reconcile, setAttribute, setText } from "./elements.js";
import { plural } from "./format.js";

export class AlertsRules {
  /** `on`: {rule(name or null), changed(): ask anew}. */
  constructor(words, tip, on) {
    Object.assign(this, { words, tip, on });
    this.filter = el("input", {
      type: "search",
      placeholder: "Filter: name, words, state",
      "aria-label": "Filter rules",
      oninput: () => this.redraw(),
    });
    this.summary = el("span", { class: "muted", role: "status" });
    this.problems = el("ul", { class: "problems", role: "status" });
    this.nothing = el("div", { class: "note" });
    const heads = words.columns.rules.map((name) => el("th", { scope: "col" }, name));
    this.head = el("thead", {}, el("tr", {}, ...heads));
    this.table = el("table", { class: "rules" }, this.head);
    this.own = new OwnRule(words, on.changed);
    const edit = el("button", { class: "quiet-button begin", onclick: () => this.own.begin("") }, "A rule of your own");
    this.node = el(
      "div",
      { class: "all-rules" },
      this.problems,
      this.own.node,
      el(
        "section",
        { class: "panel", "aria-label": "Rules" },
        el("div", { class: "panel-head" }, el("h2", {}, "Rules"), this.summary, el("span", { class: "tools" }, this.filter, edit)),
        this.table,
        this.nothing,
      ),
    );
    this.drawn = null;
  }

  /** `told`: RulesView; `chosen`: the name of the rule that the address opens, or null. */
  draw(told, chosen) {
    this.drawn = [told, chosen];
    const fitting = told.rules.filter((rule) => fits(rule, this.filter.value, this.words));
    const topics = byTopic(fitting);
    setAttribute(this.problems, "hidden", !told.problems.length);
    reconcile(
      this.problems,
      told.problems,
      (problem) => problem,
      () => el("li"),
      (node, problem) => setText(node, problem),
    );
    reconcileTopics(this.table, topics, (topic) => this.#topic(topic), (node, rules) => this.#drawTopic(node, rules, chosen));
    setText(this.summary, summaryOf(told.rules, fitting.length));
    setText(this.nothing, fitting.length ? "" : `No rule fits “${this.filter.value.trim()}”.`);
    setAttribute(this.nothing, "hidden", fitting.length > 0);
    setAttribute(this.table, "hidden", !fitting.length);
    this.#seek(chosen);
  }

  redraw() {
    if (this.drawn) this.draw(...this.drawn);
  }

  #topic(topic) {
    const span = this.words.columns.rules.length;
    return el("tbody", {}, el("tr", { class: "topic" }, el("th", { colspan: String(span), scope: "rowgroup" }, topic)));
  }

  #drawTopic(body, rules, chosen) {
    const known = (body.kxRules ??= new Map());
    const wanted = new Set(rules.map(({ name }) => name));
    for (const [name, rule] of known) {
      if (wanted.has(name)) continue;
      rule.row.remove();
      rule.more.remove();
      known.delete(name);
    }
    for (const told of rules) {
      if (!known.has(told.name)) {
        const rule = new AlertRule(this.words, this.tip, { ...this.on, edit: (text) => this.own.begin(text) });
        known.set(told.name, rule);
        body.append(rule.row, rule.more);
      }
      known.get(told.name).draw(told, told.name === chosen);
    }
  }

  #seek(chosen) {
    if (chosen === this.sought) return;
    const row = chosen && [...this.table.querySelectorAll("[data-rule]")].find((one) => one.dataset.rule === chosen);
    if (chosen && !row) return;
    this.sought = chosen;
    row?.scrollIntoView({ block: this.opened ? "nearest" : "start" });
    this.opened = true;
  }
}

function byTopic(rules) {
  const topics = new Map();
  for (const rule of rules) topics.set(rule.topic, [...(topics.get(rule.topic) ?? []), rule]);
  return [...topics];
}

// Bodies of topics stand below the head of the table, in their order.
function reconcileTopics(table, topics, make, draw) {
  const known = (table.kxTopics ??= new Map());
  const wanted = new Set(topics.map(([topic]) => topic));
  for (const [topic, node] of known) {
    if (wanted.has(topic)) continue;
    node.remove();
    known.delete(topic);
  }
  let place = table.tHead;
  for (const [topic, rules] of topics) {
    if (!known.has(topic)) known.set(topic, make(topic));
    const node = known.get(topic);
    if (place.nextElementSibling !== node) place.after(node);
    place = node;
    draw(node, rules);
  }
}

function summaryOf(rules, fitting) {
  const on = rules.filter((rule) => rule.is_on).length;
  const all = fitting < rules.length ? `${fitting} of ${plural(rules.length, "rule")}` : plural(rules.length, "rule");
  return `${all}  ·  ${on} on`;
}

function fits(rule, filter, words) {
  const wanted = filter.toLowerCase().split(/\s+/).filter(Boolean);
  if (!wanted.length) return true;
  const states = new Set(rule.served.map(({ state }) => words.stands[state]));
  const told = [rule.name, rule.topic, rule.severity, rule.sentence, rule.needs, words.origins[rule.origin], ...states]
    .concat([rule.is_on ? "on" : "off"])
    .join("\n")
    .toLowerCase();
  return wanted.every((word) => told.includes(word));
}
