// What fires now, the gravest first; what is about to; and what is muted. Few alerts are shown in full, of many the rest
// folds out.

import { AlertCard } from "./alerts_card.js";
import { sendJson } from "./address.js";
import { placeUrl } from "./alerts_place.js";
import { el, reconcile, setAttribute, setText } from "./elements.js";
import { count, duration, plural } from "./format.js";
import { whenWords } from "./moment_words.js";

const FEW = 3;

export class AlertsActive {
  /** `on`: {mute(alert), changed(): ask anew, rule(name), redraw()}. */
  constructor(words, on) {
    Object.assign(this, { words, on, turned: new Map() });
    this.problem = el("p", { class: "problem", role: "alert" });
    this.list = el("div", { class: "list" });
    this.empty = el("div", { class: "note panel calm" }, el("b"), el("span"));
    this.more = el("p", { class: "faint" });
    this.pendingList = el("ul", { class: "pending" });
    this.pending = el("section", { class: "panel aside" }, el("h3", {}, "About to fire"), this.pendingList);
    this.mutedList = el("ul", { class: "muted-list" });
    this.muted = el("section", { class: "panel aside" }, el("h3", {}, "Muted"), this.mutedList);
    this.node = el("div", { class: "active" }, this.problem, this.empty, this.list, this.more, this.pending, this.muted);
  }

  /**
   * `rules`: RuleViews by name. `chosen`: the id of the alert that the address names, or null. `calm`: title and words of
   * a page on which nothing fires.
   */
  draw(told, rules, chosen, calm) {
    const { alerts, num, pending, mutes } = told;
    const now = Date.now();
    const alertmanager = told.targets.find(({ kind, address }) => kind === "alertmanager" && !address.endsWith("…"));
    const context = {
      now,
      canMute: told.can_mute,
      alertmanager: alertmanager?.address ?? null,
      hasTargets: told.targets.length > 0,
    };
    const isOpen = ({ alert }) => this.turned.get(alert.id) ?? (alerts.length <= FEW || alert.id === chosen);
    reconcile(
      this.list,
      alerts,
      ({ alert }) => alert.id,
      () => this.#card(isOpen),
      (node, view) => {
        const isChosen = view.alert.id === chosen;
        node.kxCard.draw(view, rules.get(view.alert.rule), { ...context, isOpen: isOpen(view), isChosen });
      },
    );
    setAttribute(this.empty, "hidden", alerts.length > 0);
    calm.forEach((words, at) => setText(this.empty.children[at], words));
    setText(this.more, num > alerts.length ? `${count(num - alerts.length)} more fire and are not listed.` : "");
    this.#drawPending(pending);
    this.#drawMutes(mutes);
    this.#seek(chosen);
  }

  // The alert that the address names comes into sight, once.
  #seek(chosen) {
    if (chosen === this.sought) return;
    const node = chosen && [...this.list.children].find((card) => card.dataset.alert === chosen);
    if (chosen && !node) return;
    this.sought = chosen;
    node?.scrollIntoView({ block: "start" });
    node?.focus({ preventScroll: true });
  }

  #card(isOpen) {
    const fold = (id) => {
      this.turned.set(id, !isOpen(card.view));
      this.on.redraw();
    };
    const { mute, rule } = this.on;
    const card = new AlertCard(this.words, { mute, rule, fold, unmute: (id) => this.#unmute(id) });
    card.node.kxCard = card;
    return card.node;
  }

  #drawPending(pending) {
    setAttribute(this.pending, "hidden", !pending.length);
    reconcile(
      this.pendingList,
      pending,
      ({ rule, engine }) => `${rule} ${engine}`,
      ({ rule }) =>
        el(
          "li",
          {},
          el("span", { class: "status" }),
          el("a", { class: "name", href: placeUrl({ rule }), onclick: (event) => this.#follow(event, rule) }, rule),
          el("span", { class: "engine" }),
          el("span", { class: "muted" }),
        ),
      (node, one) => {
        setAttribute(node, "data-status", one.severity);
        const [status, , engine, when] = node.children;
        setText(status, this.words.severities[one.severity]);
        setText(engine, one.engine);
        const since = one.since ? `holds since ${whenWords(one.since, false)}, ` : "";
        setText(when, `${since}fires in ${duration(Math.ceil(one.fires_in_s))} if it goes on`);
      },
    );
  }

  #follow(event, rule) {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    this.on.rule(rule);
  }

  #drawMutes(mutes) {
    setAttribute(this.muted, "hidden", !mutes.length);
    reconcile(
      this.mutedList,
      mutes,
      ({ id }) => id,
      ({ id }) => {
        const end = { class: "quiet-button", onclick: () => this.#unmute(id) };
        return el("li", {}, el("b"), el("span", { class: "muted" }), el("button", end, "End it now"));
      },
      (node, { rule, engine, until, note }) => {
        setText(node.children[0], `${rule || "Any rule"} on ${engine || "any engine"}`);
        setText(node.children[1], `until ${whenWords(until, false)}${note ? `: ${note}` : ""}`);
      },
    );
  }

  async #unmute(id) {
    const failed = await sendJson("DELETE", `mutes/${encodeURIComponent(id)}`).then(
      () => "",
      (error) => error.message,
    );
    setText(this.problem, failed);
    this.on.changed();
  }
}

/**
 * `isOld`: the backend does not answer, and what is shown is the last that it told. Where no engine is watched, that
 * nothing fires is no comfort.
 */
export function calmTitle(isOld, numEngines) {
  if (numEngines === 0) return "No engine is watched";
  return isOld ? "Nothing fired at the last look" : "Nothing fires";
}

/** What a page without an alert says. `rules`: RuleViews, as far as they are known. */
export function calmWords({ num_rules_on: numRules, looked_at: lookedAt, targets }, numEngines, rules) {
  if (numEngines === 0) return `Nothing can fire until one is attached; ${plural(numRules, "rule")} will look at it.`;
  const engines = numEngines === null ? "the engines" : plural(numEngines, "engine");
  const looks = `${plural(numRules, "rule")} ${numRules === 1 ? "looks" : "look"} at ${engines}`;
  const last = lookedAt ? `, last at ${whenWords(lookedAt, false)}` : ", not once yet";
  const sent = targets.length ? `What fires is sent to ${targets.map(({ name }) => name).join(", ")}.` : "";
  const blind = [...rules].filter((rule) => rule.is_on && rule.served.every(({ state }) => state === "not_observable"));
  const untold = blind.length ? `Of ${blind.length} of them nothing that is watched can tell: Rules says what each needs.` : "";
  return [`${looks}${last}.`, untold, sent].filter(Boolean).join(" ");
}
