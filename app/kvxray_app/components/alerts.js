// The page of alerts: what fires, what is over, and the rules. Asked for once a second while somebody sees it.

import { AlertsActive, calmTitle, calmWords } from "./alerts_active.js";
import { AlertsHistory } from "./alerts_history.js";
import { AlertMute } from "./alerts_mute.js";
import { AlertsPlace } from "./alerts_place.js";
import { AlertsRules } from "./alerts_rules.js";
import { AlertsSummary } from "./alerts_summary.js";
import { Tabs } from "./alerts_tabs.js";
import { getJson } from "./address.js";
import { el, setAttribute, setText } from "./elements.js";
import { count } from "./format.js";
import { whenWords } from "./moment_words.js";
import { defineComponent } from "./mount.js";
import { Polling } from "./polling.js";
import { applyTheme } from "./theme.js";
import { Tip } from "./tip.js";

const LISTED = 200;
const SELDOM_MS = 30_000;
const OFTEN_MS = 3000;

class Alerts {
  constructor(root, { alerts: words }) {
    Object.assign(this, { root, words, shown: null, missing: "" });
    this.tip = new Tip(root);
    this.place = new AlertsPlace();
    this.#build();
    const redraw = () => this.#draw();
    this.feed = new Polling("alerts", { state: "active", limit: LISTED }, redraw);
    this.rules = new Polling("rules", {}, redraw);
    this.engines = new Polling("engines", {}, redraw);
    this.engines.everyMs = SELDOM_MS;
    this.place.subscribe(() => this.#moved());
    this.#moved();
  }

  close() {
    for (const part of [this.feed, this.rules, this.engines, this.history, this.place, this.tip]) part.close();
    this.asking?.abort();
    this.root.replaceChildren();
  }

  #build() {
    const { words } = this;
    const rule = (name) => this.place.go({ tab: name ? null : "rules", rule: name });
    const redraw = () => this.#draw();
    this.mute = new AlertMute(words, () => this.feed.askNow());
    this.trouble = el("div", { class: "trouble", role: "status", hidden: true });
    this.summary = new AlertsSummary(words, this.tip);
    const changed = () => this.feed.askNow();
    this.active = new AlertsActive(words, { mute: (alert) => this.mute.ask(alert), changed, rule, redraw });
    const show = (id) => this.place.go({ tab: "history", id });
    this.history = new AlertsHistory(words, { show, rule, redraw });
    this.list = new AlertsRules(words, this.tip, { rule, changed: () => this.rules.askNow() });
    const panels = { active: this.active.node, history: this.history.node, rules: this.list.node };
    this.tabs = new Tabs("Alerts", words.tabs, panels, (tab) => this.place.go({ tab: tab === "active" ? null : tab }));
    this.waiting = el("div", { class: "note panel" }, el("b", {}, "Looking at the alerts"), "A moment, please.");
    this.body = el("div", { class: "body", hidden: true }, this.summary.node, this.tabs.node, ...Object.values(panels));
    this.root.append(this.trouble, this.waiting, this.body, this.mute.node);
  }

  #moved() {
    const { id } = this.place;
    if (id !== this.wanted) this.#find(id);
    this.#draw();
  }

  // An alert that is named, and does not fire, is asked for by itself.
  async #find(id) {
    Object.assign(this, { wanted: id, shown: null, missing: "" });
    this.asking?.abort();
    if (!id) return;
    const { signal } = (this.asking = new AbortController());
    try {
      this.shown = await getJson(`alerts/${encodeURIComponent(id)}`, {}, signal);
    } catch (error) {
      if (signal.aborted) return;
      this.missing = error.message;
    }
    this.#draw();
  }

  // An alert that is over is among those that are over, whatever the address says.
  #tab(told) {
    const { tab, id, named } = this.place;
    if (named || !id || tab !== "active" || this.#fires(told, id)) return tab;
    return this.shown || this.missing ? "history" : tab;
  }

  // One that fired at the last look and does so no more is asked for again: it is over.
  #fires({ alerts }, id) {
    const fires = alerts.some(({ alert }) => alert.id === id);
    if (this.fired === id && !fires) this.#find(id);
    this.fired = fires ? id : null;
    return fires;
  }

  #draw() {
    if (!this.feed || !this.engines) return;
    const { told, failed, failedSince } = this.feed;
    const since = whenWords(failedSince, false);
    setAttribute(this.trouble, "hidden", !failed);
    setText(this.trouble, failed && troubleWords(failed, told ? since : ""));
    setAttribute(this.body, "data-old", Boolean(failed));
    setAttribute(this.body, "data-unwatched", this.engines.told?.engines?.length === 0);
    setAttribute(this.waiting, "hidden", Boolean(told) || Boolean(failed));
    setAttribute(this.body, "hidden", !told);
    if (!told) return;
    const tab = this.#tab(told);
    const engines = this.engines.told?.engines ?? null;
    const numEngines = engines?.length ?? null;
    const rules = new Map((this.rules.told?.rules ?? []).map((rule) => [rule.name, rule]));
    this.rules.everyMs = tab === "rules" ? OFTEN_MS : SELDOM_MS;
    this.summary.draw(told, numEngines, Boolean(failed));
    this.tabs.draw(tab, { active: count(told.num), rules: rules.size ? count(rules.size) : "" });
    const calm = [calmTitle(Boolean(failed), numEngines), calmWords(told, numEngines, rules.values())];
    this.active.draw(told, rules, this.place.id, calm);
    this.history.setShown(tab === "history");
    this.#drawHistory(rules, engines ?? []);
    if (this.rules.told) this.list.draw(this.rules.told, this.place.rule);
  }

  #drawHistory(rules, engines) {
    const names = engines.map(({ name }) => name);
    const shown = this.shown?.alert.state === "over" ? this.shown : null;
    this.history.draw(rules, names, this.place.id ? shown : null, this.place.id ? this.missing : "");
  }
}

// `since`: until when it was known what fires, "" where it never was.
function troubleWords(failed, since) {
  const shown = since ? ` What is shown is the last that was known, of ${since}.` : "";
  return `${failed} Nobody knows what fires now.${shown} Trying again.`;
}

export const mount = defineComponent("alerts", ({ parentElement, data }) => {
  applyTheme(parentElement, data.palettes);
  const view = new Alerts(parentElement.querySelector(".kx"), data);
  return {
    update: (next) => applyTheme(next.parentElement, next.data.palettes),
    destroy: () => view.close(),
  };
});
