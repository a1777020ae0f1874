// Alerts that are over, the newest first, page by page; by rule, engine and severity.

import { AlertCard } from "./alerts_card.js";
import { placeUrl } from "./alerts_place.js";
import { engineUrl, lastedWords, linkUrl } from "./alerts_words.js";
import { el, reconcile, setAttribute, setText } from "./elements.js";
import { count } from "./format.js";
import { whenWords } from "./moment_words.js";
import { Polling } from "./polling.js";

const PAGE = 25;
const EVERY_MS = 5000;

export class AlertsHistory {
  /** `on`: {show(id), rule(name), redraw()}. */
  constructor(words, on) {
    Object.assign(this, { words, on, offset: 0, feed: null });
    const refilter = () => this.#turn(0);
    this.rule = el("select", { "aria-label": "Rule", onchange: refilter });
    this.engine = el("select", { "aria-label": "Engine", onchange: refilter });
    this.severity = el("select", { "aria-label": "Severity", onchange: refilter });
    offer(this.severity, "Any severity", Object.entries(words.severities));
    this.range = el("span", { class: "muted", role: "status" });
    this.newer = el("button", { class: "quiet-button", onclick: () => this.#turn(this.offset - PAGE) }, "Newer");
    this.older = el("button", { class: "quiet-button", onclick: () => this.#turn(this.offset + PAGE) }, "Older");
    this.trouble = el("p", { class: "problem", role: "status" });
    this.rows = el("tbody");
    this.empty = el("div", { class: "note" });
    const heads = words.columns.history.map((name) => el("th", { scope: "col" }, name));
    this.table = el("table", { class: "over" }, el("thead", {}, el("tr", {}, ...heads)), this.rows);
    this.card = new AlertCard(words, { rule: on.rule, mute: () => {}, unmute: () => {}, fold: () => on.show(null) });
    this.missing = el("p", { class: "note panel", role: "status" });
    this.node = el(
      "div",
      { class: "past" },
      this.missing,
      this.card.node,
      el(
        "section",
        { class: "panel", "aria-label": "Alerts that are over" },
        el(
          "div",
          { class: "panel-head" },
          el("h2", {}, "Over"),
          this.range,
          el("span", { class: "tools" }, this.rule, this.engine, this.severity, this.newer, this.older),
        ),
        this.trouble,
        el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Table of alerts that are over" }, this.table),
        this.empty,
      ),
    );
  }

  /** Ask while it is shown, and only then. */
  setShown(isShown) {
    if (isShown === Boolean(this.feed)) return;
    this.feed?.close();
    this.feed = null;
    if (isShown) this.#ask();
  }

  close() {
    this.feed?.close();
  }

  /** `rules`: RuleViews by name; `engines`: names; `shown`: the AlertView that the address names, or null. */
  draw(rules, engines, shown, missing) {
    offer(this.rule, "Any rule", [...rules.keys()].map((name) => [name, name]));
    offer(this.engine, "Any engine", engines.map((name) => [name, name]));
    setText(this.missing, missing);
    setAttribute(this.missing, "hidden", !missing);
    setAttribute(this.card.node, "hidden", !shown);
    const now = Date.now();
    if (shown) this.card.draw(shown, rules.get(shown.alert.rule), { now, isOpen: true, isChosen: true, hasTargets: true });
    this.#drawTable(now, shown?.alert.id);
  }

  #drawTable(now, chosen) {
    const { told, failed } = this.feed ?? { told: null, failed: "" };
    const alerts = told?.alerts ?? [];
    const num = told?.num ?? 0;
    setText(this.trouble, failed);
    setAttribute(this.trouble, "hidden", !failed);
    setAttribute(this.table, "hidden", !alerts.length);
    setAttribute(this.empty, "hidden", alerts.length > 0 || Boolean(failed));
    setText(this.empty, told ? this.#nothing() : "Looking at what was.");
    const last = Math.min(num, this.offset + alerts.length);
    setText(this.range, num ? `${count(this.offset + 1)} to ${count(last)} of ${count(num)}` : "");
    setAttribute(this.newer, "disabled", this.offset === 0);
    setAttribute(this.older, "disabled", last >= num);
    reconcile(
      this.rows,
      alerts,
      ({ alert }) => alert.id,
      () => this.#row(),
      (node, view) => this.#patch(node, view, now, chosen),
    );
  }

  #nothing() {
    const filtered = [this.rule, this.engine, this.severity].some(({ value }) => value);
    return filtered ? "No alert fits." : "No alert is over yet. What fires, and ends, is kept here.";
  }

  #row() {
    const show = (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      this.on.show(node.kxView.alert.id);
    };
    const node = el(
      "tr",
      {},
      el("td", {}, el("span", { class: "status" })),
      el("th", { scope: "row" }, el("a", { class: "name", onclick: show })),
      el("td", {}, el("a", { class: "engine" })),
      el("td", { class: "wrong" }, el("div"), el("div", { class: "faint" })),
      el("td", { class: "when" }),
      el("td", { class: "number" }),
      el("td", {}, el("a", { class: "link" }, "Open the moment")),
    );
    return node;
  }

  #patch(node, view, now, chosen) {
    node.kxView = view;
    const { alert, link } = view;
    const [status, name, engine, wrong, fired, lasted, moment] = node.children;
    setAttribute(node, "data-status", alert.severity);
    setAttribute(node, "data-alert", alert.id);
    setAttribute(node, "data-chosen", alert.id === chosen);
    setText(status.firstChild, this.words.severities[alert.severity]);
    setText(name.firstChild, alert.rule);
    setAttribute(name.firstChild, "href", placeUrl({ tab: "history", id: alert.id }));
    setText(engine.firstChild, alert.engine);
    setAttribute(engine.firstChild, "href", engineUrl(alert));
    setText(wrong.firstChild, alert.sentence);
    setText(wrong.lastChild, alert.culprit);
    setText(fired, whenWords(alert.fired, false));
    setText(lasted, lastedWords(alert.began, alert.ended, now));
    setAttribute(moment.firstChild, "href", linkUrl(link));
    setAttribute(moment.firstChild, "hidden", !link || !alert.moment.source);
    setAttribute(moment.firstChild, "aria-label", `Open the moment of ${alert.rule} on ${alert.engine}`);
  }

  #turn(offset) {
    this.offset = Math.max(0, offset);
    this.feed?.close();
    this.#ask();
    this.on.redraw();
  }

  #ask() {
    const [rule, engine, severity] = [this.rule, this.engine, this.severity].map(({ value }) => value || null);
    const query = { state: "over", limit: PAGE, offset: this.offset || null, rule, engine, severity };
    this.feed = new Polling("alerts", query, () => this.on.redraw());
    this.feed.everyMs = EVERY_MS;
  }
}

// What is chosen stays chosen, also where it is offered no more.
function offer(select, any, options) {
  const key = options.join("\n");
  if (select.kxOffered === key) return;
  const { value } = select;
  select.kxOffered = key;
  const kept = value && !options.some(([name]) => name === value) ? [[value, value]] : [];
  const all = [["", any], ...options, ...kept];
  select.replaceChildren(...all.map(([name, label]) => el("option", { value: name }, label)));
  select.value = value;
}
