// One alert in full: what is wrong, since when, whose fault, what to do, who was told, and the way to its moment. Of many
// the rest is folded away.

import { AlertFacts } from "./alerts_facts.js";
import { agoWords, engineUrl, lastedWords, linkUrl, withCode } from "./alerts_words.js";
import { placeUrl } from "./alerts_place.js";
import { el, setAttribute, setText, setWords } from "./elements.js";
import { copyFrom } from "./inspect_copy.js";
import { whenWords } from "./moment_words.js";

export class AlertCard {
  /** `on`: {mute(alert), unmute(id), fold(id), rule(name)}. */
  constructor(words, on) {
    Object.assign(this, { words, on, view: null, rule: null });
    this.status = el("span", { class: "status" });
    this.fold = el("button", { class: "fold", onclick: () => on.fold(this.view.alert.id) });
    this.engine = el("a", { class: "engine" });
    this.labels = el("span", { class: "faint labels" });
    this.state = el("span", { class: "badge" });
    this.time = el("span", { class: "muted time" });
    this.what = el("p", { class: "what" });
    this.culprit = el("p", { class: "culprit" }, el("b", {}, "To blame: "), el("span"));
    this.first = el("p", { class: "first" }, el("b", {}, "First: "), el("span"));
    this.quiet = el("p", { class: "quiet" });
    this.facts = new AlertFacts();
    this.open = el("a", { class: "main-button" }, "Open the moment");
    this.actions = this.#actions();
    this.node = el(
      "article",
      { class: "alert panel", tabindex: "-1" },
      el("div", { class: "top" }, this.status, el("h3", {}, this.fold), this.engine, this.labels, this.state, this.time),
      this.what,
      this.culprit,
      this.open,
      this.first,
      this.quiet,
      this.facts.node,
      this.actions,
    );
  }

  /**
   * `rule`: its RuleView, undefined while not known. `context`: {now, isOpen, isChosen, canMute, alertmanager: the address
   * of one or null, hasTargets}.
   */
  draw(view, rule, context) {
    Object.assign(this, { view, rule });
    const { alert } = view;
    const { isOpen, isChosen } = context;
    setAttribute(this.node, "data-alert", alert.id);
    setAttribute(this.node, "data-status", alert.severity);
    setAttribute(this.node, "data-state", stateOf(view));
    setAttribute(this.node, "data-chosen", isChosen);
    setAttribute(this.node, "data-open", isOpen);
    setAttribute(this.node, "aria-label", `${alert.rule}, ${alert.engine}`);
    setAttribute(this.fold, "aria-expanded", String(isOpen));
    setText(this.status, this.words.severities[alert.severity]);
    setText(this.fold, alert.rule);
    setText(this.engine, alert.engine);
    setAttribute(this.engine, "href", engineUrl(alert));
    setText(this.labels, labelWords(alert));
    this.#drawTimes(view, context.now);
    setWords(this.what, alert.sentence, [alert.engine]);
    setAttribute(this.culprit, "hidden", !alert.culprit);
    setText(this.culprit.lastChild, alert.culprit);
    this.#drawFirst(rule, isOpen);
    this.#drawQuiet(view);
    setAttribute(this.facts.node, "hidden", !isOpen);
    if (isOpen) this.facts.draw(view, rule, context);
    this.#drawActions(view, context);
  }

  #drawTimes(view, now) {
    const { alert, unknown_since: unknown } = view;
    const state = stateOf(view);
    setText(this.state, STATES[state]);
    if (state === "over") return setText(this.time, overWords(alert, now));
    const since = `since ${agoWords(alert.began, now)}`;
    setText(this.time, unknown ? `${since}  ·  nobody can tell since ${whenWords(unknown, false)}` : since);
  }

  #drawFirst(rule, isOpen) {
    const [step] = rule?.do ?? [];
    setAttribute(this.first, "hidden", !step || isOpen || this.view.alert.state === "over");
    if (this.firstOf === step) return;
    this.firstOf = step;
    this.first.lastChild.replaceChildren(...withCode(step ?? ""));
  }

  #drawQuiet({ quiet }) {
    const key = JSON.stringify(quiet);
    setAttribute(this.quiet, "hidden", !quiet);
    if (this.quietOf === key) return;
    this.quietOf = key;
    this.quiet.replaceChildren(...(quiet ? this.#quietParts(quiet) : []));
  }

  #quietParts({ by, until, note, link, mute_id: mute }) {
    const who = mute ? "Muted" : until ? `Silenced by ${by}` : `Quiet, says ${by}`;
    const end = until ? ` until ${whenWords(until, false)}` : "";
    const change = mute
      ? el("button", { class: "quiet-button", onclick: () => this.on.unmute(mute) }, "End it now")
      : link
        ? el("a", { class: "link", href: safeUrl(link), target: "_blank", rel: "noreferrer" }, "Change it there")
        : null;
    return [el("b", {}, `${who}${end}`), note ? `: ${note}` : "", " ", change].filter(Boolean);
  }

  #actions() {
    const follow = (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      this.on.rule(this.view.alert.rule);
    };
    this.runbook = el("a", { class: "quiet-button", onclick: follow }, "Runbook");
    this.copy = el("button", { class: "quiet-button", onclick: () => copyFrom(this.copy, textOf(this.view)) }, "Copy as text");
    this.mute = el("button", { class: "quiet-button", onclick: () => this.on.mute(this.view.alert) }, "Mute…");
    this.silence = el("a", { class: "quiet-button", target: "_blank", rel: "noreferrer" }, "Silence in Alertmanager");
    return el("div", { class: "actions" }, this.runbook, this.copy, this.mute, this.silence);
  }

  #drawActions({ alert, link, quiet }, { canMute, alertmanager }) {
    setAttribute(this.open, "href", linkUrl(link));
    setAttribute(this.open, "hidden", !link || !alert.moment.source);
    setAttribute(this.runbook, "href", placeUrl({ rule: alert.rule }));
    const isSettled = Boolean(quiet) || alert.state === "over";
    setAttribute(this.mute, "hidden", !canMute || isSettled);
    setAttribute(this.silence, "hidden", canMute || !alertmanager || isSettled);
    setAttribute(this.silence, "href", alertmanager ? silenceUrl(alertmanager, alert) : null);
  }
}

const STATES = { firing: "firing", unknown: "unknown", quiet: "quiet", over: "over" };

function stateOf({ alert, unknown_since: unknown, quiet }) {
  if (alert.state === "over") return "over";
  if (unknown) return "unknown";
  return quiet ? "quiet" : "firing";
}

// `over_because`: why it is over though nobody saw its condition end.
function overWords({ began, fired, ended, over_because: because }, now) {
  const why = because ? `  ·  ${because}` : "";
  return `fired ${whenWords(fired, false)}  ·  over ${agoWords(ended, now)}  ·  lasted ${lastedWords(began, ended, now)}${why}`;
}

const labelWords = ({ labels, engine }) =>
  ["cluster", "namespace", "pod", "model", "role"]
    .filter((name) => labels[name] && labels[name] !== engine)
    .map((name) => labels[name])
    .join("  ·  ");

function textOf({ text, alert, link }) {
  return text || [`${alert.rule} (${alert.severity}) on ${alert.engine}`, alert.sentence, alert.culprit, linkUrl(link)].filter(Boolean).join("\n");
}

// Where an Alertmanager makes a silence of an alert.
function silenceUrl(address, { rule, engine }) {
  const filter = `{alertname=${JSON.stringify(rule)},engine=${JSON.stringify(engine)}}`;
  return safeUrl(`${address}/#/silences/new?filter=${encodeURIComponent(filter)}`);
}

// A link from outside leads to a web page, or nowhere.
function safeUrl(link) {
  return /^https?:\/\//.test(link) ? link : null;
}
